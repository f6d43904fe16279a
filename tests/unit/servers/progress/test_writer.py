"""The writer's memory of jobs; its writes are tested with the whole server."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec

from tests.support.clock import FakeClock
from tests.unit.servers.progress.samples import job
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import JobUsage
from tfoperator.kube.protocol.verbs import Replacement
from tfoperator.servers.progress.metrics import ProgressMetrics
from tfoperator.servers.progress.writer import ProgressWriter


def test_of_a_job_that_goes_while_it_is_written_nothing_is_remembered() -> None:
    new_job = job()
    status = msgspec.structs.replace(new_job.status, usage=JobUsage(source="Pods"))
    jobs = {new_job.metadata.key: msgspec.structs.replace(new_job, status=status)}
    written: list[Any] = []

    def make(request: Replacement, _: object) -> None:
        written.append(request.body["status"])
        writer.forget(new_job.metadata.key)
        jobs.clear()

    usage = JobUsage(phase="training", seconds={"starting": 5})
    reads = (SimpleNamespace(find=jobs.get), lambda _: TrainingProgress(percentage=7), lambda _: usage)
    options = {"writes_per_second": 50, "clock": FakeClock(), "metrics": ProgressMetrics()}
    writer = ProgressWriter(Mock(make=make), *reads, **options)
    writer._write(new_job.metadata.key)
    assert (writer._written_at, writer._waiting_since) == ({}, {})
    assert [progress.usage for progress in written] == [usage]
