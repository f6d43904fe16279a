"""Serves the run of another process from an API server in this process, so the commands and the page can read it.

If a run has ended or died, the server shows the state at the run's end. If the run continues, the server reads the
records of the run again whenever they change. So watches get the changes and the end of the run, and logs grow.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import Clock, Repetition, SystemClock
from tfoperator.base.files import file_mark
from tfoperator.kube.client import Client
from tfoperator.kube.views.objects import Pod
from tfoperator.local.apiserver.http.pod_streams import NodeStreams
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.local.controlplane import client_config
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.run.ending import ended_objects
from tfoperator.local.run.kept import RECORDS, UNREADABLE, KeptRun, read_run
from tfoperator.local.run.records import read_records
from tfoperator.report.curves import Curves
from tfoperator.report.report import Report

_LOOK_SECONDS = 0.5
"""Seconds between two checks of a run that continues. The run writes its records at most four times a second."""


class RecordedRun:
    """An API server with the objects and the logs of a run.

    The server runs while the `with` block runs. The server starts no pods, and changes no file of the run.
    """

    def __init__(self, run_dir: Path, *, clock: Clock | None = None) -> None:
        """Read the records. Raises OSError, or ValueError if the records or the run's result can't be read."""
        self._directory = run_dir
        self._logs = LogStore(run_dir / "logs")
        self.attempts = self._logs.attempts
        """The logs of a container's attempts."""
        self._mark: tuple[int, int, int] | None = None
        objects = self._read(read_run(run_dir))
        self._server = EmbeddedApiServer(node=NodeStreams(self._logs.read), objects=objects)
        seconds, clock = _LOOK_SECONDS, clock or SystemClock()
        self._looks = Repetition(self._look, seconds=seconds, clock=clock, name="recorded-run")

    def __enter__(self) -> RecordedRun:
        self._server.start()
        self.client = Client(client_config(self._server.endpoint))
        if self.goes_on:
            self._looks.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._looks.stop()
        self.client.close()
        self._server.stop()

    def log_place(self, pod: Pod, container: str, *, previous: bool) -> str:
        """Return the path of the log of a container's last attempt, or with `previous` of the attempt before.

        Return "" if there is no such attempt.
        """
        logs = self._logs.attempts(pod.metadata.namespace, pod.metadata.name, container)
        wanted = logs[-2:-1] if previous else logs[-1:]
        return str(wanted[0].path) if wanted else ""

    def _look(self) -> float | None:
        """Read the run again if it has changed. Return None, so that `Repetition` does not change its interval."""
        if not self.goes_on:
            return None
        run = read_run(self._directory)
        if run.end is None and file_mark(self._directory / RECORDS) == self._mark:
            self._logs.reopen(growing=True)
            return None
        try:
            self._server.show(self._read(run))
        except (OSError, ValueError):
            return None  # the next look may read it
        return None

    def _read(self, run: KeptRun) -> tuple[dict[str, Any], ...]:
        """Return the objects of the run in their present state, and set the attributes below.

        Raises OSError, or ValueError if the records or the run's result can't be read.
        """
        if run.state == UNREADABLE:
            raise ValueError("its result can't be read")
        self._mark = file_mark(self._directory / RECORDS)
        records = read_records(self._directory)
        self.goes_on = run.end is None
        """Whether the run continues."""
        self.curves = {uid: Curves(points) for uid, points in records.curves.items()}
        """The curves of the metrics of the run's jobs, by the job's UID."""
        self.jobs = [obj["metadata"] for obj in records.objects if obj.get("kind") == TFJOBS.kind]
        """The metadata of the run's jobs."""
        self.reports = _reports(run, self.jobs)
        """The reports that the run has written at its end, by the job's UID."""
        self._logs.reopen(growing=self.goes_on)
        return records.objects if run.end is None else ended_objects(records.objects, run.end)


def _reports(run: KeptRun, jobs: list[dict[str, Any]]) -> dict[str, Report]:
    uids = {(meta["namespace"], meta["name"]): meta["uid"] for meta in jobs}
    made = () if run.result is None else run.result.jobs
    return {
        uids[job.namespace, job.name]: job.report
        for job in made
        if job.report is not None and (job.namespace, job.name) in uids
    }
