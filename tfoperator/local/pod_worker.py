"""One pod's life, in a thread of its own: volumes, init containers, containers, restarts, and the end.

The thread owns everything about the pod; the rest of the world only leaves messages (a process ended, please stop)
under one condition and wakes it. That is why nothing here needs a lock but the mailbox, and why the status that is
reported is always a consistent one.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from tfoperator.clock import Clock
from tfoperator.local.expansion import ContainerConfigError, Sources, command_line, environment, image_arguments
from tfoperator.local.logs import LogStore
from tfoperator.local.podstatus import ContainerRecord, Running, StatusRenderer, Terminated, Waiting
from tfoperator.local.podview import LocalPod
from tfoperator.local.runtime import ContainerRun, LaunchError, NotYet, Runtime
from tfoperator.local.volumes import UnsupportedVolume, VolumeManager

__all__ = ["BACKOFF_BASE", "BACKOFF_CAP", "BACKOFF_RESET", "PodApi", "PodWorker", "backoff"]

logger = logging.getLogger(__name__)

BACKOFF_BASE = 1.0
"""Seconds before the second restart in a row, doubled for each one after. The kubelet begins with 10; here a person
waits for it, and no node full of crashing pods has to be protected."""
BACKOFF_CAP = 300.0
"""Seconds between restarts at most, as with the kubelet."""
BACKOFF_RESET = 600.0
"""A container that ran this many seconds starts again from no delay, as with the kubelet."""
CONFIG_RETRY = 1.0
"""Seconds between two looks for a missing ConfigMap or Secret."""
DEFAULT_GRACE = 30.0
"""Kubernetes' default for terminationGracePeriodSeconds."""
KILL_TIMEOUT = 10.0
"""Seconds to wait for the end of a process after SIGKILL; only one that hangs in the kernel needs longer."""


class PodApi(Protocol):
    """What a pod's worker needs of the API server. Its methods never raise; failures are logged."""

    def bind(self, pod: LocalPod) -> bool:
        """Assign the pod to this node, unless it is already. False if that can't be done: leave the pod alone."""
        ...

    def report(self, pod: LocalPod, status: dict[str, object]) -> None:
        """Write the pod's status."""
        ...

    def finalise(self, pod: LocalPod) -> None:
        """Remove the pod's object for good, now that nothing of it runs."""
        ...

    def sources(self, namespace: str) -> Sources:
        """Lookup of ConfigMaps and Secrets."""
        ...

    def services(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of every service."""
        ...

    def services_of(self, pod: LocalPod) -> tuple[str, ...]:
        """The names of the services that select the pod. The one that may raise: NotYet."""
        ...

    def event(self, pod: LocalPod, kind: str, reason: str, message: str) -> None:
        """Record an event about the pod; `kind` is Normal or Warning."""
        ...


def backoff(failures: int) -> float:
    """Seconds to wait before a restart after this many ends in a row: 0, 1, 2, 4 ... up to `BACKOFF_CAP`."""
    return 0.0 if failures <= 1 else min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(failures - 2, 30))


class PodWorker:
    """Runs one pod. Thread-safe: `start()` once, then `stop()`, `abandon()` and `join()` from anywhere."""

    def __init__(
        self, pod: LocalPod, *, api: PodApi, runtime: Runtime, volumes: VolumeManager, logs: LogStore, clock: Clock
    ) -> None:
        self.pod = pod
        self._api = api
        self._runtime = runtime
        self._volumes = volumes
        self._logs = logs
        self._clock = clock
        self._init = [ContainerRecord(container) for container in pod.spec.init_containers or ()]
        self._main = [ContainerRecord(container) for container in pod.spec.containers]
        self._renderer = StatusRenderer(clock.now())
        self._reported: dict[str, object] = {}
        self._warned: set[str] = set()
        self._deadline: float | None = None
        self._expired = False  # ended by its activeDeadlineSeconds
        self._wake = threading.Condition()  # guards the mailbox: the four below
        self._exits: list[tuple[ContainerRecord, int, str]] = []  # exit code, reason
        self._stop_at: float | None = None  # when a stop was asked for: the end of the grace period
        self._abandoned = False
        self._done = False
        self._thread = threading.Thread(target=self._run, name=f"pod-{pod.metadata.key}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, grace: float | None = None) -> bool:
        """Stop the containers (SIGTERM, the grace period, SIGKILL), then remove the pod's object.

        A shorter grace period shortens one that runs. False if the pod is over already: then nothing happens, and
        removing the object is left to the caller.
        """
        if grace is None:
            seconds = self.pod.spec.termination_grace_period_seconds
            grace = DEFAULT_GRACE if seconds is None else float(seconds)
        with self._wake:
            if self._done:
                return False
            stop_at = self._clock.monotonic() + grace
            if self._stop_at is None or stop_at < self._stop_at:
                self._stop_at = stop_at
                self._wake.notify_all()
            return True

    def abandon(self) -> None:
        """Kill everything at once and report nothing: the pod's object is gone."""
        with self._wake:
            self._abandoned = True
        self.stop(0.0)

    def join(self, timeout: float) -> bool:
        """Wait for the worker's end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # The rest runs in the worker's own thread.

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:
            logger.exception("pod %s: its worker failed", self.pod.metadata.key)
            self._give_up(error)
        finally:
            self._clean_up()

    def _give_up(self, error: Exception) -> None:
        """End a pod that can't be looked after (its log can't be written, say), rather than let all wait for it."""
        for record in (*self._init, *self._main):
            if record.process is not None:
                record.process.kill()
        what = f"the node agent can't run this pod: {error}"
        self._warn_once("Failed", f"Error: {what}")
        self._report("Failed", "NodeAgentError", what)

    def _live(self) -> None:
        if not self._api.bind(self.pod):
            return
        limit = self.pod.spec.active_deadline_seconds
        self._deadline = None if limit is None else self._clock.monotonic() + limit
        self._report("Pending")
        policy = self.pod.spec.restart_policy
        for record in self._init:
            self._supervise([record], "Never" if policy == "Never" else "OnFailure", "Pending")
            if self._ending() or not _succeeded(record):
                break
        else:
            self._supervise(self._main, policy, "Running")
        self._terminate()
        self._report_end()

    def _supervise(self, group: Sequence[ContainerRecord], policy: str, phase: str) -> None:
        """Start the containers of a group, and start them again as the policy says, until all are over."""
        while not self._ending():
            now = self._clock.monotonic()
            for record in group:
                if record.next_start is not None and record.next_start <= now:
                    self._start(record, policy)
            if all(record.over for record in group):
                return
            begun = any(record.started_once for record in group)
            self._report(phase if begun else "Pending")
            due = [record.next_start for record in group if record.next_start is not None]
            if self._deadline is not None:
                due.append(self._deadline)
            self._wait(min(due, default=None), policy)

    def _start(self, record: ContainerRecord, policy: str) -> None:
        pod, container = self.pod, record.container
        try:
            ip = self._runtime.prepare(pod, container, functools.partial(self._api.services_of, pod))
            self._renderer.pod_ip = ip
            sources = self._api.sources(pod.metadata.namespace)
            volumes = self._volumes.prepare(pod, sources)
            variables = environment(pod, container, sources, ip)
        except NotYet as error:
            record.state = Waiting(error.reason, str(error))
            record.next_start = self._clock.monotonic() + error.delay
            if error.warn:
                self._warn_once("Failed", str(error))
            return
        except ContainerConfigError as error:
            record.state = Waiting("CreateContainerConfigError", str(error))
            record.next_start = self._clock.monotonic() + CONFIG_RETRY
            self._warn_once("Failed", f"Error: {error}")
            return
        except (UnsupportedVolume, LaunchError, OSError) as error:
            self._begin_attempt(record)
            self._failed_to_start(record, error if isinstance(error, LaunchError) else LaunchError(str(error)), policy)
            return
        self._begin_attempt(record)
        assert record.log is not None
        try:
            run = ContainerRun(
                pod=pod,
                container=container,
                command=command_line(container, variables),
                environment=variables,
                mounts=self._volumes.mounts(pod, container, volumes),
                log=record.log,
                services=self._api.services(),
                args=image_arguments(container, variables),
            )
            record.process = self._runtime.launch(run, functools.partial(self._exited, record), self._warn_once)
        except (UnsupportedVolume, LaunchError) as error:
            self._failed_to_start(record, error if isinstance(error, LaunchError) else LaunchError(str(error)), policy)
            return
        record.state = Running(self._clock.now())
        record.started_monotonic = self._clock.monotonic()

    def _begin_attempt(self, record: ContainerRecord) -> None:
        if record.started_once:
            record.restarts += 1
        record.started_once = True
        record.next_start = None
        meta = self.pod.metadata
        record.log = self._logs.open(meta.namespace, meta.name, record.container.name, owner=meta.uid)

    def _failed_to_start(self, record: ContainerRecord, error: LaunchError, policy: str) -> None:
        assert record.log is not None
        record.log.append(f"tfoperator: {error}")
        self._warn_once("Failed", f"Error: {error}")
        record.state = Waiting()
        self._ended(record, error.exit_code, policy, reason="StartError", message=str(error))

    def _exited(self, record: ContainerRecord, code: int, reason: str = "") -> None:
        """Called by the runtime, in a thread of its own."""
        with self._wake:
            self._exits.append((record, code, reason))
            self._wake.notify_all()

    def _ended(self, record: ContainerRecord, code: int, policy: str, *, reason: str = "", message: str = "") -> None:
        started = record.state.since if isinstance(record.state, Running) else None
        reason = reason or ("Completed" if code == 0 else "Error")
        end = Terminated(code, reason, started, self._clock.now(), message)
        record.process = None
        record.state = end
        if record.log is not None:
            record.log.close(code, stopped=self._ending())
        restart = policy == "Always" or (policy == "OnFailure" and code != 0)
        if not restart or self._ending():
            return
        now = self._clock.monotonic()
        if started is not None and now - record.started_monotonic >= BACKOFF_RESET:
            record.failures = 0
        record.failures += 1
        record.last = end
        delay = backoff(record.failures)
        record.next_start = now + delay
        if delay > 0:
            what = f"back-off {delay:g}s restarting failed container {record.container.name} (exit code {code})"
            record.state = Waiting("CrashLoopBackOff", what)
            self._api.event(self.pod, "Warning", "BackOff", what[0].upper() + what[1:])

    def _wait(self, deadline: float | None, policy: str) -> None:
        """Rest until a process ends, a stop is asked for or the deadline comes; then take note of the ends."""
        with self._wake:
            while not self._exits and self._stop_at is None:
                if not self._clock.wait_until(self._wake, deadline):
                    break
            exits, self._exits = self._exits, []
        for record, code, reason in exits:
            self._ended(record, code, policy, reason=reason)

    def _ending(self) -> bool:
        with self._wake:
            return self._stop_at is not None or self._past_deadline()

    def _past_deadline(self) -> bool:
        return self._deadline is not None and self._clock.monotonic() >= self._deadline

    def _terminate(self) -> None:
        """End what still runs: SIGTERM, the grace period, SIGKILL."""
        self._expired = self._past_deadline() and not all(record.over for record in self._main)
        running = [record for record in (*self._init, *self._main) if record.process is not None]
        if not running:
            return
        with self._wake:
            if self._stop_at is None:  # the deadline of the pod, not a deletion
                seconds = self.pod.spec.termination_grace_period_seconds
                grace_end = self._clock.monotonic() + (DEFAULT_GRACE if seconds is None else seconds)
            else:
                grace_end = self._stop_at
        for record in running:
            if record.process is not None:
                record.process.terminate()
        self._await_ends(running, grace_end)
        for record in running:
            if record.process is not None:
                record.process.kill()
        self._await_ends(running, self._clock.monotonic() + KILL_TIMEOUT, shorten=False)

    def _await_ends(self, records: Sequence[ContainerRecord], deadline: float, *, shorten: bool = True) -> None:
        while any(record.process is not None for record in records):
            with self._wake:
                if shorten and self._stop_at is not None:
                    deadline = min(deadline, self._stop_at)
                if not self._exits and not self._clock.wait_until(self._wake, deadline) and not self._exits:
                    return
                exits, self._exits = self._exits, []
            for record, code, reason in exits:
                self._ended(record, code, "Never", reason=reason)

    def _report_end(self) -> None:
        failed = [r for r in (*self._init, *self._main) if isinstance(r.state, Terminated) and r.state.exit_code != 0]
        over = all(isinstance(record.state, Terminated) for record in self._main)
        if self._expired:
            self._report("Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        elif failed or not over:
            self._report("Failed")
        else:
            self._report("Succeeded")

    def _report(self, phase: str, reason: str = "", message: str = "") -> None:
        if self._abandoned:
            return
        now = self._clock.now()
        status = self._renderer.render(phase, self._init, self._main, now, reason=reason, message=message)
        if status != self._reported:
            self._reported = status
            self._api.report(self.pod, status)

    def _warn_once(self, reason: str, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._api.event(self.pod, "Warning", reason, message)

    def _clean_up(self) -> None:
        for record in (*self._init, *self._main):
            if record.log is not None:
                record.log.close()
        self._runtime.release_pod(self.pod)
        self._volumes.remove(self.pod)
        with self._wake:
            self._done = True
            finalise = self._stop_at is not None and not self._abandoned
        if finalise:
            self._api.finalise(self.pod)


def _succeeded(record: ContainerRecord) -> bool:
    return isinstance(record.state, Terminated) and record.state.exit_code == 0
