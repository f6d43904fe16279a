"""A run that goes on, written by one process and read by another."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tfoperator.base.files import hold_lock
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import decode_pod
from tfoperator.local.run.journal import RunJournal
from tfoperator.local.run.kept import LOG, RECORDS, RESULT, read_run
from tfoperator.local.run.recorded_run import RecordedRun
from tfoperator.local.run.records import RunRecords, read_records
from tfoperator.sdk import TFJobClient

JOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"namespace": "ns", "name": "a", "uid": "u", "creationTimestamp": "2026-01-31T12:00:00Z"},
    "spec": {"tfReplicaSpecs": {"Worker": {}}},
    "status": {"conditions": [{"type": "Running", "status": "True", "reason": "TFJobRunning"}]},
}


class Writer:
    """The process that runs the jobs."""

    def __init__(self) -> None:
        self.changes = 0
        self.objects: tuple[dict[str, Any], ...] = ()
        self.asked: list[int] = []

    def saw(self, *objects: dict[str, Any]) -> None:
        self.objects = objects
        self.changes += 1

    def records(self, since: int) -> tuple[int, RunRecords] | None:
        self.asked.append(since)
        return None if since == self.changes else (self.changes, RunRecords(self.objects))


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Path]:
    """The directory of a run that goes on."""
    with hold_lock(tmp_path / LOG) or pytest.fail("locked"):
        yield tmp_path


def test_others_follow_a_run_to_its_end(going: Path) -> None:
    writer = Writer()
    with RunJournal(going, writer.records), RecordedRun(going) as run:
        assert (run.jobs, run.goes_on) == ([], True)
        client = TFJobClient(run=run, namespace="ns")
        writer.saw(JOB)
        eventually(lambda: [job.state.word for job in client.list_jobs()] == ["Running"], what="the job is seen")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "p", "uid": "p"}}
        writer.saw(JOB, pod)
        eventually(lambda: run.client.list(PODS, "ns", decode_pod).items, what="the pod is seen")
        result = {"outcome": "TimedOut", "seconds": 3, "runDirectory": str(going), "jobs": []}
        (going / RESULT).write_text(json.dumps({**result, "began": "2026-01-31T12:00:00Z"}))
        eventually(lambda: [job.state.word for job in client.list_jobs()] == ["TimedOut"], what="its end is seen")
        assert not run.goes_on


def test_records_that_are_cut_while_it_goes_on_are_read_when_they_are_whole(going: Path) -> None:
    writer = Writer()
    writer.saw(JOB)
    clock = FakeClock()
    with RunJournal(going, writer.records, clock=clock), RecordedRun(going, clock=clock) as run:
        (going / RECORDS).write_text('{"objects": [{"kind"')
        run._look()
        assert [job.state.word for job in TFJobClient(run=run, namespace="ns").list_jobs()] == ["Running"]
    with pytest.raises(ValueError, match="truncated"):
        RecordedRun(going)


def test_records_are_written_only_when_something_has_changed_and_the_log_shows_that_it_lives(going: Path) -> None:
    writer = Writer()
    (going / RESULT).write_text("of an earlier run in this directory")
    with RunJournal(going, writer.records):
        assert not (going / RESULT).exists()
        written = (going / RECORDS).stat().st_mtime_ns
        for _ in range(2):
            os.utime(going / LOG, (0, 0))
            eventually(lambda: (going / LOG).stat().st_mtime > 0, what="a sign of life")
        assert (going / RECORDS).stat().st_mtime_ns == written
        assert read_run(going).state == "Running"
        writer.saw(JOB)
        eventually(lambda: read_records(going).objects == (JOB,), what="the change is recorded")


def test_a_full_disk_does_not_end_the_run_and_is_said_once(going: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer()
    with RunJournal(going, writer.records):
        (going / RECORDS).unlink()
        (going / RECORDS).mkdir()  # a folder, so that writing fails
        writer.saw(JOB)
        tried = len(writer.asked)
        eventually(lambda: len(writer.asked) > tried + 2, what="it tries again")
    assert [record.message for record in caplog.records] == ["the run's records can't be written: Is a directory"]
