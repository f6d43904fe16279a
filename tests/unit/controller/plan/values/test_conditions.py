"""Where each condition stands: the Go operator's in `conditions`, others in `operatorConditions`."""

import msgspec
import pytest

from tests.unit.controller.builders import NOW, after, make_job, make_pod, planned, started, with_status
from tfoperator.api.v1.condition_types import PEER_CONDITIONS
from tfoperator.api.v1.condition_types import ConditionType as C
from tfoperator.api.v1.job_conditions import final_condition, has_condition
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import decode_tfjob

OWN = [kind for kind in C if kind not in PEER_CONDITIONS]


def condition(kind: C, status: str = "True") -> JobCondition:
    return JobCondition(kind, status, f"TFJob{kind}", "m", NOW, NOW)


def types(conditions: tuple[JobCondition, ...]) -> list[str]:
    return [job_condition.type for job_condition in conditions]


def old_form(status: TFJobStatus) -> TFJobStatus:
    """The status as an older release wrote it: all conditions in one list."""
    together = (*status.operator_conditions, *status.conditions)
    return msgspec.structs.replace(status, conditions=together, operator_conditions=())


def test_a_job_whose_replicas_are_ready_says_so_outside_of_what_foreign_clients_read() -> None:
    result = planned(started(make_job({"Worker": 1})), make_pod("Worker-0"))
    assert types(result.status.conditions) == [C.CREATED, C.RUNNING]
    assert types(result.status.operator_conditions) == [C.READY]


@pytest.mark.parametrize("kind", OWN)
def test_a_running_job_of_an_older_release_keeps_its_conditions_with_their_times_in_the_new_place(kind: C) -> None:
    job = started(make_job({"Worker": 2}, runPolicy={"progressDeadlineSeconds": 600}))
    pods = make_pod("Worker-0"), make_pod("Worker-1")
    status = planned(job, *pods).status
    for own in (condition(kind), condition(kind, "False")):
        conditions = (own, *(other for other in status.conditions if other.type != kind))
        before = msgspec.structs.replace(status, conditions=conditions, operator_conditions=())
        result = planned(with_status(job, before), *pods, now=after(60))
        assert set(types(result.status.conditions)) <= PEER_CONDITIONS
        assert result.write_status
        kept = result.has_condition(kind) and result.condition(kind)
        if kept and kept.status == own.status:
            assert kept.last_transition_time == NOW


def test_a_status_of_both_forms_is_read_alike() -> None:
    status = TFJobStatus(conditions=(condition(C.CREATED),), operator_conditions=(condition(C.READY),))
    for variant in (status, old_form(status)):
        job = with_status(make_job({"Worker": 1}), decode_tfjob(msgspec.json.encode({"status": variant})).status)
        assert has_condition(job, C.READY)
        assert has_condition(job, C.CREATED)


@pytest.mark.parametrize("outcome", [C.SUCCEEDED, C.FAILED])
def test_a_job_that_ended_under_an_older_release_does_not_wait_for_ready_for_ever(outcome: C) -> None:
    status = TFJobStatus(
        conditions=(condition(C.CREATED), condition(C.READY, "False"), condition(C.STALLED), condition(outcome)),
        start_time=NOW,
        completion_time=NOW,
        observed_generation=1,
    )
    job = make_job({"Worker": 1}, status=status)
    result = planned(job, now=after(60))
    assert result.write_status
    assert types(result.status.conditions) == [C.CREATED, outcome]
    assert types(result.status.operator_conditions) == [C.READY, C.STALLED]
    same = ("conditions", "operator_conditions")
    for name in TFJobStatus.__struct_fields__:
        assert name in same or getattr(result.status, name) == getattr(status, name), name
    again = planned(with_status(job, result.status), now=after(61))
    assert not again.write_status


@pytest.mark.parametrize(("observed", "expected"), [(1, 3), (3, 3), (0, 0)])
def test_an_edit_of_a_job_that_has_ended_is_observed_and_changes_nothing_else(observed: int, expected: int) -> None:
    ended = (condition(C.CREATED), condition(C.SUCCEEDED))
    status = TFJobStatus(conditions=ended, start_time=NOW, completion_time=NOW, observed_generation=observed)
    result = planned(make_job({"Worker": 1}, status=status, generation=3), now=after(60))
    assert result.status == msgspec.structs.replace(status, observed_generation=expected)
    assert result.write_status == (observed != expected)
    assert not list(result.actions)
    assert final_condition(with_status(make_job({"Worker": 1}), result.status)) == condition(C.SUCCEEDED)
