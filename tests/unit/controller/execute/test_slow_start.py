from collections.abc import Sequence

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import api_error
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.controller.execute.slow_start import failures_after, in_growing_batches, in_turn
from tfoperator.controller.plan.values.actions import Action, Create
from tfoperator.kube.protocol.resources import PODS

DENIED = api_error(403, "Forbidden", 'admission webhook "gpu" denied the request')


def named(*names: str) -> list[tuple[Action, ...]]:
    """Chains that create the pods of these replicas."""
    replicas = {name: (ReplicaType(name[:-2]), int(name[-1])) for name in names}
    return [(Create(kind="pods", name=name, replica=replicas[name], body={}, spec_field=""),) for name in names]


def test_what_fails_lets_all_others_go_first_its_type_too_and_what_is_not_tried_any_more_is_forgotten() -> None:
    """However many creations fail for ever, in whatever order, all others are tried."""
    chains = named("Chief-0", "Evaluator-0", "Worker-0", "Worker-1", "Worker-2")
    failed: dict[str, int] = {}
    first = []
    for _ in range(6):
        ordered = in_turn(chains, failed)
        first.append(ordered[0][0].name)
        failed = failures_after(failed, chains, ordered[:1])
    assert first == ["Chief-0", "Evaluator-0", "Worker-0", "Chief-0", "Evaluator-0", "Worker-1"]
    failed = failures_after({}, named("PS-0", "PS-1", "Worker-0"), named("PS-0"))
    assert in_turn(named("PS-0", "PS-1", "Worker-0"), failed) == named("Worker-0", "PS-1", "PS-0")
    failed = failures_after({}, named("PS-0", "PS-1"), named("PS-0", "PS-1"))
    assert set(failed) == {"PS-0", "PS-1"}
    assert set(failures_after(failed, named("PS-1"), [])) == {"PS-1"}
    assert failures_after(failed, [], []) == {}


def test_a_replica_that_may_not_be_created_does_not_hold_up_the_others(harness: Harness) -> None:
    harness.running(Chief=1, Evaluator=1, Worker=3, restart_policy="OnFailure")
    harness.api.fail("create", "pods", DENIED, times=100, name="job-evaluator-0")
    for lost in ("job-evaluator-0", "job-worker-1"):
        harness.api.remove(PODS, "ns", lost)
    harness.sync(times=2)
    assert "job-worker-1" in harness.api.names(PODS)
    harness.forget_calls()
    harness.sync()
    assert harness.calls("create") == [("create", "pods")], "what fails is tried again, once"


@pytest.mark.parametrize("workers", [2, 3])
def test_a_failed_pod_that_may_not_be_deleted_does_not_hold_up_its_own_type(harness: Harness, workers: int) -> None:
    harness.running(Worker=workers, restart_policy="OnFailure")
    harness.api.fail("delete", "pods", DENIED, times=100, name="job-worker-0")
    harness.play_kubelet("job-worker-0", "Failed", exit_code=1)
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.sync(times=3)
    assert "job-worker-1" in harness.api.names(PODS)


@pytest.mark.parametrize(("failing", "tried"), [(0, 1), (1, 3), (2, 3), (5, 7), (20, 31), (70, 95)])
def test_batches_double_until_one_has_a_failure(failing: int, tried: int) -> None:
    done = in_growing_batches(range(100), list, ok=lambda number: number != failing, most=32)
    assert done == list(range(tried))


def test_no_batch_is_larger_than_the_most() -> None:
    sizes: list[int] = []

    def do(batch: Sequence[int]) -> list[int]:
        sizes.append(len(batch))
        return list(batch)

    assert in_growing_batches(range(40), do, ok=lambda _: True, most=12) == list(range(40))
    assert sizes == [1, 2, 4, 8, 12, 12, 1]
    assert in_growing_batches([], do, ok=lambda _: True, most=12) == []
