"""One run: TFJobs from a manifest, from their creation to their end, on their own embedded control plane.

Two threads share the work. `JobLifecycle` makes the decisions, in its own thread. The caller's thread shows the run: it
reads the logs, takes the lifecycle's news out of a queue, and calls the listener. So a listener needs no locks and gets
changes in order, and a slow terminal delays only the listener.
"""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, replica_name
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.kube.protocol.verbs import WithJson
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import Pod, object_key
from tfoperator.local.controlplane import ControlPlane, PageMaker, ServedPage
from tfoperator.local.node.volumes import VOLUMES, VolumeManager
from tfoperator.local.run.container_output import OutputPace, OutputReader, RunListener
from tfoperator.local.run.fit_output import FitOutput
from tfoperator.local.run.lifecycle import JobLifecycle
from tfoperator.local.run.records import RunRecords, parameters_of
from tfoperator.local.run.report_facts import full_disk, read_kernel_log
from tfoperator.local.run.results import Evidence, JobResult, RunOutcome, RunResult, deleted_message, job_result
from tfoperator.local.runtime.protocol import Mount, real_path
from tfoperator.local.runtime.selection import PROCESSES, RuntimeOptions
from tfoperator.report.facts import Typed

_POLL_SECONDS = 0.1  # seconds between two reads of the logs
_LISTEN_SECONDS = 0.5  # seconds between two checks of the ports at which processes listen


class JobRun:
    """Runs the objects of a manifest until their end. It can be used only once: call `execute()`.

    `timeout` is the maximum duration of the run in seconds. None means no limit. `pods` selects the runtime of pods. A
    signal handler may call `interrupt()`. With `make_page`, the run serves a page until its end. `typed` is the kind of
    input that the user gave: a manifest, a program or a function. Advice to the user uses the words of this kind.
    """

    def __init__(
        self,
        objects: Sequence[Mapping[str, Any]],
        listener: RunListener,
        *,
        run_dir: Path,
        namespace: str = "default",
        timeout: float | None = None,
        pods: RuntimeOptions = PROCESSES,
        make_page: PageMaker | None = None,
        typed: Typed = Typed.MANIFEST,
    ) -> None:
        self._make_page = make_page
        self._pods = pods
        self._objects = objects
        self._listener = listener
        self._run_dir = run_dir
        self._news: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lifecycle = JobLifecycle(objects, listener, self._news, namespace=namespace, timeout=timeout)
        self._pace = OutputPace()
        self._typed = typed
        self._fits: dict[str, FitOutput] = {}  # by the path of the log
        self._fitting: set[tuple[str, str]] = set()  # pods that have printed their progress, by namespace and name
        self._heard: set[tuple[str, str]] = set()  # pods at whose port a process has listened, by namespace and name
        self._listened_at = 0.0
        self._began = datetime.now(UTC).replace(microsecond=0)

    def interrupt(self) -> None:
        """End the run gracefully. On a second call, end it at once. A signal handler may call it."""
        self._lifecycle.interrupt()

    def execute(self) -> RunResult:
        """Run the objects, and return how the run ended.

        Raises KubeError if the control plane rejects an object, OSError or RuntimeUnavailable if the control plane
        can't start, ControlPlaneFailed if the operator fails, and the exceptions of the listener. In all cases,
        the processes and threads of the run have ended, and its ports are closed.
        """
        began = time.monotonic()
        self._began = datetime.now(UTC).replace(microsecond=0)
        plane = ControlPlane(
            self._run_dir,
            pods=self._pods,
            progress=any(map(_reports_progress, self._objects)),
            on_failure=self._lifecycle.operator_failed,
            page=None if self._make_page is None else ServedPage(self._make_page, self._lifecycle.page_link),
            on_quiet=self._lifecycle.look_back,
        )
        reader = OutputReader(plane.agent.logs)
        self._lifecycle.start(plane)
        try:
            self._show_all(reader, plane)
        finally:
            self._lifecycle.abandon()
            self._lifecycle.join()
            reader.close()
        outcome = self._lifecycle.outcome
        jobs = tuple(self._result(job, plane, outcome) for job in self._lifecycle.jobs.values())
        if outcome is RunOutcome.INTERRUPTED and jobs and all(job.succeeded for job in jobs):
            outcome = RunOutcome.SUCCEEDED
        deleted = [job for uid, job in self._lifecycle.jobs.items() if uid in self._lifecycle.deleted]
        message = deleted_message(deleted[0].view) if deleted else ""
        seconds = round(time.monotonic() - began, 3)
        return RunResult(outcome, seconds, str(self._run_dir), jobs, self._began, message=message)

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event of the run."""
        return tuple(self._lifecycle.events)

    def records(self, since: int = -1) -> tuple[int, RunRecords] | None:
        """Return the number of changes so far, and the records of the run.

        Return None if this number equals `since`. Any thread may call it.
        """
        changed = self._lifecycle.seen(since)
        if changed is None:
            return None
        changes, snapshot = changed
        events = {event.metadata.uid: event for event in snapshot.events}
        jobs, pods = [job.raw for job in snapshot.jobs], [pod.raw for pod in snapshot.pods]
        return changes, RunRecords.of(jobs, pods, events.values(), snapshot.curves, began=self._began)

    def ended_records(self, result: RunResult) -> RunRecords:
        """Return the records that stay after the run's end."""
        changes_and_records = self.records()
        assert changes_and_records is not None
        return changes_and_records[1].ended(result.end)

    def failure(self, message: str) -> RunResult:
        """Return the result of a run for which `execute` has raised an error. `message` is the text of the error."""
        seconds = round((datetime.now(UTC) - self._began).total_seconds(), 3)
        return RunResult(RunOutcome.FAILED, seconds, str(self._run_dir), (), self._began, message=message)

    def _show_all(self, reader: OutputReader, plane: ControlPlane) -> None:
        """Show changes and lines, until the run has stopped and all its changes and lines have been shown."""
        ended = False
        while not ended or reader.more or not self._news.empty():
            ended = self._lifecycle.ended  # read before the news: once it is true, nothing more is written or sent
            news = self._take_news(0.0 if ended or (reader.more and self._shows_all_lines) else _POLL_SECONDS)
            # A container's output before its end is shown before the news of its end.
            self._show_lines(reader, plane)
            for call in news:
                call()
            self._listener.tick()
            if time.monotonic() >= self._listened_at + _LISTEN_SECONDS:
                self._listened_at = time.monotonic()
                self._heard |= plane.runtime.network.heard()

    def _apart(self, pods: Sequence[Pod]) -> tuple[str, ...]:
        """Return the trained replicas of a job, if several replicas trained and no replica has listened at its port.

        Without a listening replica, the replicas can't have connected to each other, so each has trained alone. In all
        other cases, and if this process can't see the ports of the pods, return ().
        """
        places = {(pod.metadata.namespace, pod.metadata.name): replica_name(pod) for pod in pods}
        trained = [name for place, name in sorted(places.items()) if place in self._fitting]
        is_seen = not self._pods.in_containers and sys.platform == "linux"
        return tuple(trained) if is_seen and len(trained) > 1 and not self._heard & places.keys() else ()

    def _take_news(self, timeout: float) -> list[Callable[[], object]]:
        calls = []
        try:
            calls.append(self._news.get(timeout=timeout) if timeout else self._news.get_nowait())
            while True:
                calls.append(self._news.get_nowait())
        except queue.Empty:
            return calls

    @property
    def _shows_all_lines(self) -> bool:
        # After Ctrl-C, the user wants the end, and not a million lines before it.
        return self._listener.shows_every_line and not self._lifecycle.interrupted

    def _show_lines(self, reader: OutputReader, plane: ControlPlane) -> None:
        chunks = reader.read(None if self._shows_all_lines else self._pace.lines)
        for chunk in chunks:
            if chunk.container == DEFAULT_CONTAINER_NAME:
                fit = self._fits.setdefault(chunk.path, FitOutput())
                report = fit.read((*chunk.lines, chunk.bar), time.monotonic(), datetime.now(UTC))
                if report is not None:
                    self._fitting.add((chunk.namespace, chunk.pod))
                    plane.observe(object_key(chunk.namespace, chunk.pod), report)
        if chunks:
            began = time.monotonic()
            self._listener.logged(chunks)
            self._pace = self._pace.after(sum(len(chunk.lines) for chunk in chunks), time.monotonic() - began)

    def _result(self, job: WithJson[TFJob], plane: ControlPlane, outcome: RunOutcome) -> JobResult:
        uid = job.metadata.uid
        pods = [pod.view for pod in self._lifecycle.pods.values() if pod.metadata.is_controlled_by(uid)]
        log_dir = tensorboard_log_dir(job.view, self._run_dir, in_container=self._pods.in_containers)
        return job_result(
            job.view,
            pods,
            plane.agent.logs,
            log_dir=log_dir,
            outcome=outcome,
            deleted=uid in self._lifecycle.deleted,
            parameters=parameters_of(msgspec.json.decode(job.raw)),
            typed=self._typed,
            evidence=Evidence(
                peaks=plane.runtime.peaks,
                kernel_log=read_kernel_log,
                full_disk=lambda: full_disk([self._run_dir, self._pods.work_dir or Path()]),
                apart=self._apart(pods),
                quiet=self._lifecycle.quiet,
            ),
        )


def _reports_progress(obj: Mapping[str, Any]) -> bool:
    """Return whether an object in a manifest is a job that reports progress.

    Only such a job needs the progress service.
    """
    spec = obj.get("spec")
    return obj.get("kind") == TFJOBS.kind and isinstance(spec, Mapping) and isinstance(spec.get("progress"), Mapping)


def tensorboard_log_dir(job: TFJob, run_dir: Path, *, in_container: bool = False) -> str:
    """Return the log directory of a job's TensorBoard after the run; "" if the job has none, or if it was removed.

    `in_container` is whether the TensorBoard ran in a container. In this case, a directory outside of all mounts was
    removed together with the container.
    """
    tensorboard = job.spec.tensor_board
    if tensorboard is None:
        return ""
    claims = VolumeManager(run_dir / VOLUMES).claims(job.metadata.namespace)
    sources: dict[str, Path] = {}
    for volume in tensorboard.volumes:
        if isinstance(host := volume.get("hostPath"), dict):
            sources[volume["name"]] = Path(str(host.get("path")))
        elif isinstance(claim := volume.get("persistentVolumeClaim"), dict):
            sources[volume["name"]] = claims / str(claim.get("claimName"))
    mounts = [
        Mount(
            name=mount["name"],
            source=sources[mount["name"]] / str(mount.get("subPath") or ""),
            mount_path=mount["mountPath"],
        )
        for mount in tensorboard.volume_mounts
        if mount["name"] in sources
    ]
    if "://" in tensorboard.log_dir:
        return tensorboard.log_dir
    if in_container and not any(
        PurePosixPath(tensorboard.log_dir).is_relative_to(mount.mount_path) for mount in mounts
    ):
        return ""
    path = real_path(tensorboard.log_dir, mounts)
    return path if Path(path).is_dir() else ""
