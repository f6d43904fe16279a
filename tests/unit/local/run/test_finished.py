"""Which jobs have finished although the run was interrupted: not each job whose program exits with 0."""

import pytest

from tests.unit.controller.builders import make_job, make_pod
from tfoperator.local.run.finished import has_finished, may_be_ending
from tfoperator.report.facts import FinalState, ReplicaFacts, RunFacts

CAUGHT = "W0000 00:00:1795948697.727658    1474 preemption_notifier.cc:90] SIGTERM caught at 2026-11-29T10:38:17+00:00"
TRAINED = ("Epoch 2/2", "70/70 ━━━━━━━━━━━━━━━━━━━━ 2s 20ms/step - loss: 0.5")


def stopped(name: str, code: int | None, *tail: str) -> ReplicaFacts:
    run = RunFacts(exit_code=code, stopped=True, tail=tail)
    return ReplicaFacts(name=name, state=FinalState.STOPPED, runs=(run,))


@pytest.mark.parametrize(
    ("code", "tail", "finished"),
    [
        (0, ("step 7", CAUGHT, "trained"), True),
        (0, TRAINED, True),
        (0, ("step 7", "asked to stop", "saved"), False),
        (0, ("Epoch 1/2", "70/70 ━━━━━━━━━━━━━━━━━━━━ 2s 20ms/step - loss: 0.5"), False),
        (137, (CAUGHT, *TRAINED), False),
        (143, TRAINED, False),
        (None, TRAINED, False),
    ],
)
def test_exit_code_0_after_sigterm_needs_a_sign_of_the_end(
    code: int | None, tail: tuple[str, ...], finished: bool
) -> None:
    job = make_job({"Worker": {"replicas": 2}})
    other = stopped("worker-1", 143, "step 7")
    assert has_finished(job, [stopped("worker-0", code, *tail), other]) is finished


def test_who_decides_on_the_success_decides_here() -> None:
    done, not_done = ((0, *TRAINED), (143, "step 7"))
    chief = make_job({"Chief": {"replicas": 1}, "Worker": {"replicas": 1}})
    assert has_finished(chief, [stopped("chief-0", *done), stopped("worker-0", *not_done)])
    assert not has_finished(chief, [stopped("chief-0", *not_done), stopped("worker-0", *done)])
    all_of_them = make_job({"Worker": {"replicas": 2}}, successPolicy="AllWorkers")
    assert not has_finished(all_of_them, [stopped("worker-0", *done), stopped("worker-1", *not_done)])
    assert has_finished(all_of_them, [stopped("worker-0", *done), stopped("worker-1", *done)])
    assert not has_finished(chief, [])


def test_who_may_end_together_with_the_first() -> None:
    def ending(replica: str, phase: str = "Running", policy: str | None = None, **replicas: int) -> bool:
        job = make_job(replicas or {"Worker": 2}, runPolicy={} if policy is None else {"cleanPodPolicy": policy})
        pod = make_pod(replica, phase)
        assert pod.metadata.controller is not None
        return may_be_ending(pod, {pod.metadata.controller.uid: job})

    assert ending("Worker-1")
    assert ending("Worker-1", Chief=1, Worker=2)
    assert not ending("Worker-1", "Succeeded")
    assert not ending("Worker-1", PS=1, Worker=2), "it trains on by itself"
    assert not ending("Worker-1", policy="Running"), "it is to be stopped"
    assert not ending("Evaluator-0", Worker=1, Evaluator=1)
    assert not may_be_ending(make_pod("Worker-1"), {})
