from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tfoperator.api.v1.types import TFJob, TFJobStatus, decode_tfjob
from tfoperator.controller.memory import JobMemory, ReconcileNote, is_older

replace = msgspec.structs.replace


def job(version: str = "10", generation: int = 1, phase: str = "") -> TFJob:
    manifest = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": version, "generation": generation},
        "spec": {"tfReplicaSpecs": {"worker": {"template": {"spec": {"containers": []}}}}},
        "status": {"phase": phase},
    }
    return decode_tfjob(msgspec.json.encode(manifest))


@pytest.mark.parametrize(
    ("one", "other", "older"),
    [("9", "10", True), ("10", "9", False), ("7", "7", False), ("a", "b", None), ("a", "a", False), ("", "1", None)],
)
def test_versions_are_compared_as_numbers_where_they_are_numbers(one: str, other: str, older: bool | None) -> None:
    assert is_older(one, other) is older


def test_the_spec_is_defaulted_and_validated_once_per_generation() -> None:
    memory = JobMemory()
    first, problems = memory.prepare(job())
    again, _ = memory.prepare(job(version="11"))
    assert again.spec is first.spec
    assert "Worker" in first.spec.tf_replica_specs
    assert any("containers" in problem for problem in problems)
    changed, _ = memory.prepare(job(version="12", generation=2))
    assert changed.spec is not first.spec


def test_a_job_without_generation_is_looked_at_anew_each_time() -> None:
    memory = JobMemory()
    first, _ = memory.prepare(job(generation=0))
    again, _ = memory.prepare(job(generation=0))
    assert again.spec is not first.spec
    assert not memory.refuse("u", 0, "never mind")


def test_the_status_written_last_holds_until_the_cache_shows_it() -> None:
    memory = JobMemory()
    memory.prepare(job("10"))
    memory.wrote(job("12", phase="Running"))
    assert memory.prepare(job("10"))[0].status.phase == "Running"
    assert memory.prepare(job("11"))[0].status.phase == "Running"
    assert memory.prepare(job("12", phase="Running"))[0].status.phase == "Running"
    # Somebody else's later write counts.
    assert memory.prepare(job("13", phase="Failed"))[0].status.phase == "Failed"
    assert memory.prepare(job("10"))[0].status.phase == ""


def test_a_job_carries_the_version_of_the_status_that_it_shows() -> None:
    memory = JobMemory()
    assert memory.prepare(job("10"))[0].metadata.resource_version == "10"
    memory.wrote(job("12", phase="Running"))
    assert memory.prepare(job("10"))[0].metadata.resource_version == "12"
    assert memory.prepare(job("13"))[0].metadata.resource_version == "13"


def test_versions_that_cannot_be_compared_are_known_by_what_the_cache_showed_at_the_last_write() -> None:
    memory = JobMemory()
    memory.prepare(job("a"))
    memory.wrote(job("b", phase="Pending"))
    memory.prepare(job("a"))
    memory.wrote(job("c", phase="Running"))
    assert memory.prepare(job("a"))[0].status.phase == "Running"


def test_versions_that_cannot_be_compared_count_as_new_once_they_change() -> None:
    memory = JobMemory()
    memory.prepare(job("a"))
    memory.wrote(job("b", phase="Running"))
    assert memory.prepare(job("a"))[0].status.phase == "Running"
    assert memory.prepare(job("c", phase="Failed"))[0].status.phase == "Failed"


def test_a_refusal_is_a_problem_of_this_generation_only() -> None:
    memory = JobMemory()
    memory.prepare(job())
    assert memory.refuse("u", 1, "the server refuses it")
    assert "the server refuses it" in memory.prepare(job())[1]
    assert "the server refuses it" not in memory.prepare(job(generation=2))[1]
    assert not memory.refuse("u", 1, "too late")


def test_a_refusal_is_forgotten_with_the_next_comparison_but_what_validation_found_is_not() -> None:
    memory = JobMemory()
    _, problems = memory.prepare(job())
    memory.refuse("u", 1, "the server refuses it")
    memory.note_reconciled("u", ReconcileNote(time=datetime.now(UTC), write=False))
    assert memory.prepare(job())[1] == problems
    assert memory.refuse("u", 1, "the server refuses it")
    assert memory.prepare(job())[1] == (*problems, "the server refuses it")


def test_a_warning_is_said_once_per_generation() -> None:
    memory = JobMemory()
    memory.prepare(job())
    assert memory.first_warning("u", "name taken")
    assert not memory.first_warning("u", "name taken")
    memory.prepare(job(generation=2))
    assert memory.first_warning("u", "name taken")


def test_a_note_waits_until_it_is_recorded_and_a_newer_one_survives() -> None:
    memory = JobMemory()
    memory.prepare(job())
    old = ReconcileNote(datetime(2026, 1, 1, tzinfo=UTC), write=False)
    new = ReconcileNote(datetime(2026, 1, 2, tzinfo=UTC), write=True)
    memory.note_reconciled("u", old)
    memory.note_reconciled("u", new)
    memory.note_recorded("u", old)
    assert memory.note("u") == new
    memory.note_recorded("u", new)
    assert memory.note("u") is None


def test_what_is_said_about_a_forgotten_job_is_dropped() -> None:
    memory = JobMemory()
    memory.prepare(job())
    memory.forget("u")
    memory.wrote(replace(job(), status=TFJobStatus(phase="Running")))
    memory.note_reconciled("u", ReconcileNote(datetime(2026, 1, 1, tzinfo=UTC), write=False))
    assert not memory.first_warning("u", "x")
    assert len(memory) == 0
