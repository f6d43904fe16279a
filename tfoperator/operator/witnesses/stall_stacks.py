"""Takes the stacks of a job's threads when the job has stalled, or when its `activeDeadlineSeconds` have passed.

The stacks go to the log archive. To get the stacks, the operator runs a command in each pod. For this, the operator
needs the right `pods/exec`. This right allows any action in those pods, so an administrator must enable the feature
(`--stall-stacks`). Syncs and other jobs don't wait for the stacks. Only the end of a stalled job waits for the stacks,
for a limited time. Each result is reported by an event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, replica_name
from tfoperator.api.replicas.replica_pods import replica_phase
from tfoperator.api.v1.reasons import JobReason
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.protocol.errors import ForbiddenError, KubeError
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.logs.stacks import STACKS_COMMAND, PodStacks, stacks_printed, stacks_refused
from tfoperator.operator.witnesses.witness_pool import WitnessPool

if TYPE_CHECKING:
    from tfoperator.kube.http.sending.exec import Executed

logger = logging.getLogger(__name__)

MAX_PODS = 16
"""The maximum number of pods of a job whose stacks are taken. If a thousand workers wait for each other, the stacks of
a few show the cause.
"""
MAX_BYTES = 1 << 20
"""The maximum size of the stacks of a pod in bytes. Some hundred threads fit."""
COMMAND_SECONDS = 15.0
"""The time limit of the command, in seconds. The command itself waits at most 5 s for a program that does not
answer.
"""
TAKE_SECONDS = 25.0
"""Seconds. A pod is left out if the command in it has not begun this long after the request for the job's stacks. The
end of a job waits at most 30 s for stacks.
"""

_CONCURRENT_PODS = 8
_MAX_LISTED = 8
_MAX_PROBLEMS = 3
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_FORBIDDEN_PROBLEM = (
    "the operator may not run commands in pods. Allow get and create of pods/exec (the Kustomize component "
    "stall-stacks, or stallStacks.enabled in the Helm chart), or start the operator without --stall-stacks; "
    "see docs/hangs.md"
)


class CommandRunner(Protocol):
    """Runs commands in containers. `tfoperator.kube.client.Client` implements it."""

    def pod_exec(
        self, namespace: str, name: str, container: str, command: Sequence[str], *, timeout: float, max_bytes: int
    ) -> Executed:
        """Run a command, for at most `timeout` seconds and with at most `max_bytes` bytes of output.

        Raises KubeError.
        """
        ...


KeepStacks = Callable[[ObjectMeta, Pod, str, str], object]
"""A function that archives the stacks of a pod. The arguments are the job, the pod, the container's name and the text.
Raises OSError.
"""
Tell = Callable[[ObjectMeta, JobReason, str], object]
"""A function that records an event on a job. The arguments are the job, the event's reason and its message."""


@dataclass
class _Taking:
    """A request for the stacks of a job's pods that is in progress. The lock of the StackTaker guards its fields.

    - `open` is the number of pods whose stacks are still awaited.
    - `left_out` is the number of pods beyond the maximum number of pods (`MAX_PODS` by default).
    - `forbidden` is true if the operator lacks the right `pods/exec`.
    - `kept` has the names of the replicas whose stacks are in the archive.
    - `problems` has the reason for each replica whose stacks were requested, but are not in the archive.
    """

    job: ObjectMeta
    deadline: float
    done: Callable[[], object]
    open: int
    left_out: int
    forbidden: bool = False
    kept: list[str] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


class StackTaker:
    """Takes and archives stacks in its own threads, as the controller's protocol `StackKeeper` requires.

    Thread-safe. `close()` ends the threads.
    """

    def __init__(
        self,
        runner: CommandRunner,
        keep: KeepStacks,
        tell: Tell,
        *,
        max_pods: int = MAX_PODS,
        clock: Clock | None = None,
    ) -> None:
        self._runner = runner
        self._max_pods = max_pods
        self._keep = keep
        self._tell = tell
        self._clock = clock or SystemClock()
        self._pool = WitnessPool(_CONCURRENT_PODS, "stall-stacks")
        self._lock = threading.Lock()  # guards the fields below, and takings
        self._taken: dict[str, datetime] = {}  # by job uid
        self._open: dict[str, _Taking] = {}  # by job uid

    def taken(self, uid: str) -> datetime:
        """Return the time at which the stacks of the job with this UID were last taken.

        Return the start of 1970 if its stacks were never taken.
        """
        with self._lock:
            return self._taken.get(uid, _NEVER)

    def take(self, job: ObjectMeta, pods: Sequence[Pod], done: Callable[[], object]) -> None:
        """Begin to take the stacks of a job's running pods, unless this is already in progress.

        The operator takes the stacks of at most `max_pods` pods. `done` is called when the operator has taken these
        stacks, or has failed to take them, or at once if no pod runs. `done` is not called if the operator already
        takes stacks of this job, or if `forget` or `close` is called before the end.
        """
        running = [pod for pod in pods if replica_phase(pod) == "Running" and pod.metadata.deletion_timestamp is None]
        chosen = running[: self._max_pods]
        with self._lock:
            if self._pool.closed or job.uid in self._open:
                return
            if not chosen:
                self._taken[job.uid] = self._clock.now()
            else:
                deadline = self._clock.monotonic() + TAKE_SECONDS
                taking = _Taking(job, deadline, done, len(chosen), len(running) - len(chosen))
                self._open[job.uid] = taking
                for pod in chosen:
                    self._pool.submit(self._take_one, taking, pod)
        if not chosen:
            done()

    def forget(self, uid: str) -> None:
        """Forget a job that no longer exists."""
        with self._lock:
            self._taken.pop(uid, None)
            self._open.pop(uid, None)

    def close(self, timeout: float = 2.0) -> None:
        """Start no more requests, and wait up to `timeout` seconds of real time for the threads. Idempotent."""
        self._pool.close(timeout)

    def _take_one(self, taking: _Taking, pod: Pod) -> None:
        try:
            problem = self._problem_of(taking, pod)
        except Exception:
            logger.exception("reading the stacks of pod %s failed", pod.metadata.name, extra={"job": taking.job.key})
            problem = "an unexpected error happened; see the operator's log"
        name = replica_name(pod)
        with self._lock:
            if problem:
                taking.problems[name] = problem
            else:
                taking.kept.append(name)
            taking.open -= 1
            # If the job was deleted meanwhile, `forget` has removed `taking`.
            over = taking.open == 0 and not self._pool.closed and self._open.get(taking.job.uid) is taking
            if over:
                del self._open[taking.job.uid]
                self._taken[taking.job.uid] = self._clock.now()
        if over:
            self._tell(taking.job, *_told(taking))
            taking.done()

    def _problem_of(self, taking: _Taking, pod: Pod) -> str:
        """Take the stacks of one pod and archive them. Return the problem if this failed, and otherwise ""."""
        with self._lock:
            if taking.forbidden:
                return _FORBIDDEN_PROBLEM
            if self._pool.closed or self._clock.monotonic() >= taking.deadline:
                return "the time limit was reached before the operator read the stacks"
        found = self._ask(taking, pod)
        if found.problem:
            return found.problem
        try:
            self._keep(taking.job, pod, DEFAULT_CONTAINER_NAME, found.text)
        except OSError as error:
            return f"the log archive can't keep the stacks: {error.strerror or error}"
        return ""

    def _ask(self, taking: _Taking, pod: Pod) -> PodStacks:
        meta = pod.metadata
        try:
            ran = self._runner.pod_exec(
                meta.namespace,
                meta.name,
                DEFAULT_CONTAINER_NAME,
                STACKS_COMMAND,
                timeout=COMMAND_SECONDS,
                max_bytes=MAX_BYTES,
            )
        except ForbiddenError as error:
            logger.warning("%s: %s", _FORBIDDEN_PROBLEM, error, extra={"job": taking.job.key})
            with self._lock:
                taking.forbidden = True
            return PodStacks(problem=_FORBIDDEN_PROBLEM)
        except KubeError as error:
            return stacks_refused(error, "the operator")
        return stacks_printed(ran)


def _told(taking: _Taking) -> tuple[JobReason, str]:
    """Return the reason and the message of the event: the replicas whose stacks were taken, and the problems."""
    name = taking.job.name
    if taking.forbidden:
        return JobReason.STACKS_NOT_TAKEN, f"The operator got no stacks of TFJob {name}: {_FORBIDDEN_PROBLEM}."
    problems = [f"{replica}: {why}" for replica, why in sorted(taking.problems.items())]
    more = f"; and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
    missing = f" Replicas without stacks: {'; '.join(problems[:_MAX_PROBLEMS])}{more}." if problems else ""
    rest = f" The operator did not request the stacks of {taking.left_out} more replicas." if taking.left_out else ""
    if not taking.kept:
        return JobReason.STACKS_NOT_TAKEN, f"The operator got no stacks of TFJob {name}.{missing}{rest}"
    return JobReason.STACKS_TAKEN, f"Stacks of {_names(taking.kept)} are in the log archive.{missing}{rest}"


def _names(replicas: Iterable[str]) -> str:
    names = sorted(replicas)
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more
