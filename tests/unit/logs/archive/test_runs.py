from datetime import UTC, datetime

import msgspec
import pytest

from tests.unit.logs.archive.samples import ended, pod, record, waiting
from tfoperator.api.replicas.names import ANNOTATION_RESTART_MODE
from tfoperator.kube.views.objects import ObjectMeta, Pod, PodSpec
from tfoperator.kube.views.pod_status import ContainerState, ContainerStatus
from tfoperator.logs.archive.layout import ArchivedContainer
from tfoperator.logs.archive.runs import kept_runs, ready_runs, runs_of

RUNNING = ContainerState()
BACKOFF = waiting(reason="CrashLoopBackOff").state
EARLY, LATE = (datetime(2026, 1, 1, 12, minute, tzinfo=UTC) for minute in (1, 2))


def status(state: ContainerState | None, last: ContainerState | None = None, restarts: int = 0) -> ContainerStatus:
    return ContainerStatus(name="c", state=state, last_state=last, restart_count=restarts)


def having(
    container_status: ContainerStatus, *, policy: str = "Never", phase: str = "Running", leaving: bool = False
) -> Pod:
    made = pod(0, container_status)
    meta: ObjectMeta = msgspec.structs.replace(made.metadata, deletion_timestamp=EARLY if leaving else None)
    whole = msgspec.structs.replace(made.status, phase=phase)
    return msgspec.structs.replace(made, metadata=meta, spec=PodSpec(restart_policy=policy), status=whole)


def run_states(given_pod: Pod) -> list[tuple[int, bool, bool]]:
    """Number, `previous` and whether it is ready to be kept, of each run."""
    ready = ready_runs(given_pod)
    return [(run.number, run.previous, run in ready) for run in runs_of(given_pod)]


def test_a_run_has_a_key_of_its_own_for_as_long_as_a_status_tells_of_it() -> None:
    life = [
        status(ended(1, EARLY), restarts=1),
        status(BACKOFF, ended(1, EARLY), restarts=1),
        status(RUNNING, ended(1, EARLY), restarts=2),
        status(ended(0, LATE), ended(1, EARLY), restarts=2),
    ]
    key = ("c", 1, 1, EARLY)
    assert all(key in [run.key for run in runs_of(having(container_status))] for container_status in life)
    assert runs_of(having(life[3]))[0].key == ("c", 2, 0, LATE)
    within_one_second = status(ended(), ended(), restarts=1)
    assert len({run.key for run in runs_of(having(within_one_second))}) == 2


@pytest.mark.parametrize(
    ("given_pod", "states"),
    [
        (having(status(None)), []),
        (having(status(BACKOFF)), []),
        (having(status(RUNNING)), [(0, False, False)]),
        (having(status(RUNNING), leaving=True), [(0, False, True)]),
        (having(status(ended())), [(0, False, True)]),
        (having(status(RUNNING, ended(), restarts=1)), [(1, False, False), (0, True, True)]),
        (having(status(BACKOFF, ended(), restarts=1)), [(1, False, True)]),
    ],
)
def test_what_has_ended_or_is_to_go_is_kept_at_once(given_pod: Pod, states: list[tuple[int, bool, bool]]) -> None:
    assert run_states(given_pod) == states


@pytest.mark.parametrize(
    ("policy", "code", "comes_back"),
    [("Never", 1, False), ("OnFailure", 1, True), ("OnFailure", 0, False), ("Always", 0, True)],
)
def test_a_run_that_is_about_to_be_followed_by_another_waits_for_it(policy: str, code: int, comes_back: bool) -> None:
    # Its log would be the log of the next run, if that begins meanwhile.
    container_status = status(ended(code))
    assert run_states(having(container_status, policy=policy)) == [(0, False, not comes_back)]
    assert run_states(having(container_status, policy=policy, phase="Failed")) == [(0, False, True)]
    assert run_states(having(container_status, policy=policy, leaving=True)) == [(0, False, True)]


@pytest.mark.parametrize(
    ("name", "code", "comes_back"), [("tensorflow", 130, True), ("tensorflow", 3, False), ("c", 130, False)]
)
def test_a_run_waits_for_the_next_that_a_rule_begins(name: str, code: int, comes_back: bool) -> None:
    given_pod = having(msgspec.structs.replace(status(ended(code)), name=name), policy="Never")
    marked = msgspec.structs.replace(given_pod.metadata, annotations={ANNOTATION_RESTART_MODE: "InPlace"})
    assert run_states(msgspec.structs.replace(given_pod, metadata=marked)) == [(0, False, not comes_back)]


def test_an_init_container_that_has_done_its_part_does_not_come_back() -> None:
    made = pod(0, status(RUNNING), init=[msgspec.structs.replace(status(ended(0)), name="fetch")])
    made = msgspec.structs.replace(made, spec=PodSpec(restart_policy="Always"))
    assert [run.container for run in ready_runs(made)] == ["fetch"]


def test_a_record_tells_what_it_has() -> None:
    (run, before) = runs_of(having(status(ended(0, LATE), ended(1, EARLY), restarts=1)))
    first = {"previous_exit_code": 1, "previous_finished": EARLY, "previous_log": "c.previous.log"}
    container = ArchivedContainer("c", restarts=1, exit_code=0, finished=LATE, log="c.log", **first)
    kept = msgspec.structs.replace(record(uid="u"), containers=(container,))
    assert kept_runs(kept) == {run.key, before.key}
    assert kept_runs(None) == frozenset()
    broken = msgspec.structs.replace(container, problem="cut off")
    assert kept_runs(msgspec.structs.replace(kept, containers=(broken,))) == frozenset()
