"""One run: TFJobs from a manifest, from their creation to their end, on an embedded control plane of their own.

Everything that happens (a job, a pod or an event changes, lines are logged, the user presses Ctrl-C) becomes a
message in one queue, and one thread, the caller's, takes them out and tells the listener. So a listener needs no
locks, sees things in order, and a slow terminal holds up nothing but itself.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.errors import KubeError, NotFoundError
from tfoperator.kube.objects import HasMetadata, Pod
from tfoperator.kube.resources import EVENTS, PODS
from tfoperator.kube.verbs import decoder
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.documents import apply
from tfoperator.local.events_view import EventView, decode_event
from tfoperator.local.log_follower import LogFollower, LogLine
from tfoperator.local.results import Outcome, RunResult, final_condition, job_result
from tfoperator.local.runtimes import RuntimeName
from tfoperator.local.tensorboard_logs import tensorboard_log_dir

__all__ = ["ControlPlaneFailed", "Interrupt", "JobRun", "RunListener"]

logger = logging.getLogger(__name__)

_TICK = 0.25  # seconds between two ticks of the listener
_BATCHES_AHEAD = 64  # how far the log follower may run ahead of the listener
_STOP_MARGIN = 15.0  # seconds beyond the longest grace period until a run stops waiting for pods to end


class ControlPlaneFailed(Exception):
    """The operator could not go on, so the run had to end."""


class _Broken(msgspec.Struct, frozen=True):
    """The operator can't go on."""

    reason: str


class Interrupt(msgspec.Struct, frozen=True):
    """The user wants the run to end: the first time in order, the second time at once."""


class _SeenJob(HasMetadata, frozen=True):
    """A TFJob with the JSON it came as, to be kept as the server had it."""

    job: TFJob = msgspec.field(default_factory=TFJob)
    raw: bytes = b""


class _Gone(msgspec.Struct, frozen=True):
    """An object was deleted."""

    obj: _SeenJob | Pod


_Message = _SeenJob | Pod | EventView | _Gone | list[LogLine] | Interrupt | _Broken


class RunListener(Protocol):
    """Who is told what happens. All calls come from the thread that runs the job; what they raise ends the run."""

    def job_changed(self, job: TFJob) -> None:
        """A job has been created or its status has changed."""
        ...

    def pod_changed(self, pod: Pod) -> None:
        """A pod has been created or its status has changed."""
        ...

    def pod_gone(self, pod: Pod) -> None:
        """A pod has been removed."""
        ...

    def event(self, event: EventView) -> None:
        """An event was recorded."""
        ...

    def logged(self, lines: Sequence[LogLine]) -> None:
        """Containers have written something."""
        ...

    def stopping(self, outcome: Outcome) -> None:
        """The run is over, or is to be; what still runs is being stopped."""
        ...

    def tick(self) -> None:
        """Some time has passed."""
        ...


class JobRun:
    """Runs the objects of a manifest to their end. Use once: `execute()`.

    `timeout` is in seconds, None for no limit. `interrupt()` may be called from a signal handler.
    """

    def __init__(
        self,
        objects: Sequence[Mapping[str, Any]],
        listener: RunListener,
        *,
        run_dir: Path,
        namespace: str = "default",
        timeout: float | None = None,
        keep_volumes: bool = False,
        runtime: RuntimeName = RuntimeName.PROCESS,
    ) -> None:
        self._runtime = runtime
        self._objects = objects
        self._listener = listener
        self._run_dir = run_dir
        self._namespace = namespace
        self._timeout = timeout
        self._keep_volumes = keep_volumes
        self._messages: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._room = threading.BoundedSemaphore(_BATCHES_AHEAD)
        self._closing = threading.Event()
        self._jobs: dict[str, _SeenJob] = {}  # by uid
        self._pods: dict[str, Pod] = {}  # by uid; every pod that there ever was
        self._alive: dict[str, Pod] = {}  # by uid; the pods of jobs that still exist
        self._events: list[EventView] = []
        self._interrupts = 0
        self._over = False  # the jobs' end has been noted: what happens to them now is clean-up

    def interrupt(self) -> None:
        """End the run in order; at once when called again. Safe in a signal handler: the queue's put is reentrant."""
        self._messages.put(Interrupt())

    def execute(self) -> RunResult:
        """Run, and return how it ended.

        Raises KubeError if the control plane refuses an object, OSError or RuntimeUnavailable if it can't start,
        ControlPlaneFailed if the operator breaks down. Whatever happens, no process, thread or port is left.
        """
        began = time.monotonic()
        plane = ControlPlane(
            self._run_dir,
            keep_volumes=self._keep_volumes,
            runtime=self._runtime,
            on_failure=lambda reason: self._messages.put(_Broken(reason)),
        )
        follower = LogFollower(plane.agent.logs, self._take_lines)
        plane.start()
        informers = self._watch(plane)
        try:
            follower.start()
            apply(plane.client, self._objects, self._namespace)
            expected = sum(1 for obj in self._objects if obj.get("kind") == TFJOBS.kind)
            outcome = self._until_finished(expected, None if self._timeout is None else began + self._timeout)
            self._over = True
            self._listener.stopping(outcome)
            self._stop_jobs(plane)
        finally:
            self._closing.set()
            informers.stop()
            plane.stop()
            follower.stop()
        self._drain()
        jobs = tuple(self._result(seen, plane) for seen in self._jobs.values())
        return RunResult(outcome, round(time.monotonic() - began, 3), str(self._run_dir), jobs)

    @property
    def final_jobs(self) -> tuple[bytes, ...]:
        """Each job as JSON, as it was last seen."""
        return tuple(seen.raw for seen in self._jobs.values())

    @property
    def events(self) -> tuple[EventView, ...]:
        """Every event of the run."""
        return tuple(self._events)

    # Producers: other threads, which only put messages into the queue.

    def _watch(self, plane: ControlPlane) -> SharedInformerFactory:
        informers = SharedInformerFactory(plane.client)
        informers.informer(TFJOBS, _decode_job).add_handler(_ToQueue(self._messages))
        informers.informer(PODS, decoder(Pod)).add_handler(_ToQueue(self._messages))
        informers.informer(EVENTS, decode_event).add_handler(_ToQueue(self._messages))
        informers.start()
        return informers

    def _take_lines(self, lines: list[LogLine]) -> None:
        while not self._closing.is_set() and not self._room.acquire(timeout=0.2):
            pass
        self._messages.put(lines)

    # The consumer: the caller's thread.

    def _until_finished(self, expected: int, deadline: float | None) -> Outcome:
        while True:
            if self._interrupts:
                return Outcome.INTERRUPTED
            ends = [final_condition(seen.job) for seen in self._jobs.values()]
            if len(ends) >= expected and all(ends):
                succeeded = all(end is not None and end.type == "Succeeded" for end in ends)
                return Outcome.SUCCEEDED if succeeded else Outcome.FAILED
            if deadline is not None and time.monotonic() >= deadline:
                return Outcome.TIMED_OUT
            self._next(_TICK if deadline is None else min(_TICK, max(0.0, deadline - time.monotonic())))

    def _stop_jobs(self, plane: ControlPlane) -> None:
        """Delete the jobs, which takes their pods along, and wait until those have ended."""
        for seen in tuple(self._jobs.values()):
            meta = seen.metadata
            try:
                plane.client.delete(TFJOBS, meta.namespace, meta.name, uid=meta.uid, propagation_policy="Background")
            except NotFoundError:
                continue
            except KubeError as error:
                logger.warning("can't delete TFJob %s: %s", meta.key, error)
        began = time.monotonic()
        hurried = False
        while self._alive and time.monotonic() < began + self._longest_grace() + _STOP_MARGIN:
            if self._interrupts > 1 and not hurried:
                hurried = True
                plane.agent.kill_all()
            self._next(_TICK)

    def _longest_grace(self) -> float:
        return max((pod.metadata.deletion_grace_period_seconds or 0.0 for pod in self._alive.values()), default=0.0)

    def _next(self, timeout: float) -> None:
        try:
            self._handle(self._messages.get(timeout=timeout))
        except queue.Empty:
            pass
        else:
            self._handle_waiting()
        self._listener.tick()

    def _handle_waiting(self) -> None:
        """What is there already, but not more: a pod that never stops logging must not hide all else."""
        for _ in range(200):
            try:
                self._handle(self._messages.get_nowait())
            except queue.Empty:
                return

    def _drain(self) -> None:
        try:
            while True:
                self._handle(self._messages.get_nowait())
        except queue.Empty:
            self._listener.tick()

    def _handle(self, message: _Message) -> None:
        match message:
            case list():
                try:
                    self._room.release()
                except ValueError:
                    pass  # put without room, because the run was closing
                self._listener.logged(message)
            case _SeenJob():
                if not self._over:
                    self._jobs[message.metadata.uid] = message
                    self._listener.job_changed(message.job)
            case Pod():
                self._pods[message.metadata.uid] = message
                if message.metadata.controller is not None:
                    self._alive[message.metadata.uid] = message
                self._listener.pod_changed(message)
            case EventView():
                self._events.append(message)
                self._listener.event(message)
            case _Gone(obj=Pod() as pod):
                self._alive.pop(pod.metadata.uid, None)
                self._listener.pod_gone(pod)
            case _Broken() if not self._over:
                raise ControlPlaneFailed(message.reason)
            case Interrupt():
                self._interrupts += 1
            case _:
                pass

    def _result(self, seen: _SeenJob, plane: ControlPlane) -> Any:
        owned = [pod for pod in self._pods.values() if _controller_uid(pod) == seen.metadata.uid]
        log_dir = tensorboard_log_dir(seen.job, self._run_dir, in_container=self._runtime is not RuntimeName.PROCESS)
        return job_result(seen.job, owned, plane.agent.logs, log_dir)


class _ToQueue:
    """An informer's handler that makes messages of everything."""

    def __init__(self, messages: queue.SimpleQueue[_Message]) -> None:
        self._messages = messages

    def on_add(self, obj: Any, *, initial: bool) -> None:
        del initial
        self._messages.put(obj)

    def on_update(self, old: Any, new: Any) -> None:
        del old
        self._messages.put(new)

    def on_delete(self, obj: Any, *, final_state_unknown: bool) -> None:
        del final_state_unknown
        self._messages.put(_Gone(obj))


def _controller_uid(pod: Pod) -> str:
    controller = pod.metadata.controller
    return controller.uid if controller is not None else ""


def _decode_job(data: bytes) -> _SeenJob:
    job = decode_tfjob(data)
    return _SeenJob(metadata=job.metadata, job=job, raw=bytes(data))
