"""The state of a job in words: the same in each view."""

import re
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import NOW
from tfoperator.api.v1.condition_types import TROUBLES, ConditionType
from tfoperator.api.v1.state import CRASH_LOOP, JobState
from tfoperator.api.v1.types import TFJob
from tfoperator.cli.views import jobs as commands
from tfoperator.ui.jobs import views as page


def job(*conditions: tuple[str, str], **metadata: Any) -> TFJob:
    entries = [{"type": kind, "status": status, "message": f"about {kind}"} for kind, status in conditions]
    return msgspec.convert({"metadata": metadata, "status": {"conditions": entries}}, TFJob)


STATES = [
    (job(), JobState("Pending")),
    (job(("Created", "True")), JobState("Created", "about Created")),
    (job(("Created", "True"), ("Running", "False")), JobState("Created", "about Running")),
    (job(("Created", "True"), ("Running", "Unknown")), JobState("Created", "about Running")),
    (job(("Created", "True"), ("Running", "True"), ("Ready", "True")), JobState("Running", "about Running")),
    (job(("Running", "False"), ("Restarting", "True")), JobState("Restarting", "about Restarting")),
    (
        job(("Running", "False"), ("Suspended", "True"), ("Created", "True")),
        JobState("Suspended", "about Suspended"),
    ),
    (job(("Suspended", "False"), ("Running", "True")), JobState("Running", "about Running")),
    (job(("Running", "False"), ("Succeeded", "True")), JobState("Succeeded", "about Succeeded")),
    (job(("Running", "True"), ("Stalled", "True")), JobState("Stalled", "about Stalled")),
    (job(("Straggling", "True"), ("Diverged", "True"), ("Running", "True")), JobState("Diverged", "about Diverged")),
    (job(("Running", "False"), ("Suspended", "True"), ("Diverged", "True")), JobState("Suspended", "about Suspended")),
    (job(("Diverged", "True"), ("Succeeded", "True")), JobState("Succeeded", "about Succeeded")),
    (
        job(("Running", "True"), deletionTimestamp="2026-01-01T00:00:00Z"),
        JobState("Terminating", "about Running"),
    ),
]


@pytest.mark.parametrize(("seen", "state"), STATES, ids=lambda value: value.word if isinstance(value, JobState) else "")
def test_each_view_shows_the_same_state_of_a_job_and_the_same_message(seen: TFJob, state: JobState) -> None:
    assert seen.state == state
    row = commands.job_row(seen, NOW, wide=True)
    assert (row[commands.STATE_COLUMN], row[-1]) == (state.word, state.message)
    shown = page.job_row(seen)
    assert shown["state"] == state.word
    assert shown["message"] == (state.message or "The operator has not read this job yet.")
    assert repr(seen).endswith(f": {state.word}>")
    assert f"</b> {state.word}<table>" in re.sub(r"</?span[^>]*>", "", seen._repr_html_())


def ended(kind: str, reason: str) -> TFJob:
    conditions = [{"type": "Running", "status": "False"}, {"type": kind, "status": "True", "reason": reason}]
    return msgspec.convert({"metadata": {}, "status": {"conditions": conditions}}, TFJob)


@pytest.mark.parametrize(
    ("kind", "reason", "state"),
    [
        ("Failed", "RunTimedOut", "TimedOut"),
        ("Failed", "RunInterrupted", "Interrupted"),
        ("Failed", "RunDied", "Died"),
        ("Failed", "TFJobFailed", "Failed"),
        ("Succeeded", "RunTimedOut", "Succeeded"),
    ],
)
def test_a_job_that_ended_with_its_run_is_in_the_state_of_the_run(kind: str, reason: str, state: str) -> None:
    assert ended(kind, reason).state.word == state


@pytest.mark.parametrize(
    ("status", "message", "reason", "state"),
    [
        ("True", "TFJob a/b is running. 0/1 replicas ready; Worker-0 waits.", CRASH_LOOP, CRASH_LOOP),
        ("True", "TFJob a/b is running. 1/2 replicas ready; Worker-0 waits.", "ImagePullBackOff", "Running"),
        ("True", "TFJob CrashLoopBackOff/b is running.", "", "Running"),
        ("False", "0/1 replicas ready; Worker-0 waits.", CRASH_LOOP, "Pending"),
    ],
)
def test_a_job_with_a_replica_in_a_crash_loop_does_not_just_run(
    status: str, message: str, reason: str, state: str
) -> None:
    running = {"type": "Running", "status": status, "message": message}
    waiting = [{"reason": reason, "message": "x"}] if reason else []
    seen = msgspec.convert({"metadata": {}, "status": {"conditions": [running], "waiting": waiting}}, TFJob)
    assert seen.state == JobState(state, message)
    stalled = {"type": "Stalled", "status": status, "message": "it hangs"}
    both = {"conditions": [running, stalled], "waiting": waiting}
    seen = msgspec.convert({"metadata": {}, "status": both}, TFJob)
    assert seen.state.word == ("Stalled" if status == "True" else "Pending"), "a stall says more"


@pytest.mark.parametrize("kind", ConditionType)
def test_a_condition_of_ours_is_a_state_only_if_it_is_a_trouble_of_a_job_that_runs(kind: ConditionType) -> None:
    alone, running = job((kind, "True")).state.word, job(("Running", "True"), (kind, "True")).state.word
    if kind.traits.is_peers:
        assert alone == kind
    else:
        assert alone == "Pending"
        assert running == (kind if kind in TROUBLES else "Running")
