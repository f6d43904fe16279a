"""The environment of a launch: directories, retry policies, the client of the cluster, metadata, logs, the clock."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.base.controlchars import without_controls
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.loading import SERVICE_ACCOUNT, load_config, load_in_cluster_config
from tfoperator.kube.protocol.retry import failure_of
from tfoperator.launcher.core.errors import LaunchCancelled
from tfoperator.launcher.core.metadata import Driver, LocalMetadata, Publisher
from tfoperator.launcher.core.output import LocalOutputStore, OutputStore
from tfoperator.launcher.core.record import RecordKeeper

logger = logging.getLogger(__name__)

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True):
    """A number of attempts, including the first attempt, and the waits between them in seconds.

    The wait after attempt n is `initial * factor**(n-1)`, but at most `maximum`. The wait is then shortened by a random
    fraction between 0 and `jitter`. If a server requests a longer wait with the header Retry-After, this wait is used,
    but at most `longest_retry_after`. With `any_failure`, permanent failures are retried, too.
    """

    attempts: int = 3
    initial: float = 5.0
    maximum: float = 300.0
    jitter: float = 0.5
    longest_retry_after: float = 600.0
    factor: float = 2.0
    any_failure: bool = False
    """Whether a permanent failure is retried, too."""

    def delay(self, failed: int, retry_after: float | None, random: Random) -> float:
        """Return the seconds to wait after `failed` attempts."""
        try:
            seconds = min(self.maximum, self.initial * self.factor ** min(failed - 1, 64))
        except OverflowError:
            seconds = self.maximum
        seconds *= 1 - self.jitter * random.random()
        return max(seconds, min(retry_after or 0.0, self.longest_retry_after))


class FolderMount(msgspec.Struct, frozen=True):
    """A folder of this machine (`source`), and the path at which a process finds the folder's content."""

    source: str
    path: str
    read_only: bool = False


DEFAULT_POLICY = RetryPolicy()
"""The policy for executions. The TFX design names no numbers. This project has chosen them."""

CLEAN_UP_POLICY = RetryPolicy(attempts=5, initial=0.5, maximum=5.0)
"""The policy for removing containers. It has shorter waits, because a container that remains does little harm."""

API_POLICY = RetryPolicy(attempts=12, initial=0.5, maximum=30.0)
"""The policy for requests to an API server. All waits together take about 3 minutes, so the API server can restart."""


def connect(kubeconfig: str | None = None, context: str | None = None) -> Client:
    """Return a client for the cluster that `find_cluster` returns. The caller must close it. Raises ConfigError."""
    return Client(find_cluster(kubeconfig, context))


def find_cluster(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Return the config of the chosen cluster.

    If neither a kubeconfig nor a context is given, use the cluster of this process's pod. If this process runs in no
    pod, use the default kubeconfig. kubectl prefers a kubeconfig. The TFX design prefers the pod's cluster, so that a
    launcher in a pod launches into its own cluster. Raises ConfigError if there is no usable configuration.
    """
    if in_cluster(environ, service_account) and not kubeconfig and not context:
        return load_in_cluster_config(environ=environ, service_account=service_account)
    return load_config(kubeconfig, context, environ=environ, service_account=service_account)


def in_cluster(environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Return whether this process runs in a pod."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").exists()


class CleanUp(StrEnum):
    """Whether the launcher removes a container that has ended.

    If a container must be stopped, the launcher always removes it.
    """

    ALWAYS = "always"
    ON_SUCCESS = "on-success"
    NEVER = "never"

    def removes(self, *, succeeded: bool) -> bool:
        """Return whether the launcher removes a container that has succeeded, or failed if `succeeded` is False."""
        return self is CleanUp.ALWAYS or (self is CleanUp.ON_SUCCESS and succeeded)


@dataclasses.dataclass(frozen=True)
class PendingLimits:
    """The maximum number of seconds that a pod may wait. After that the launch fails, and the pod is removed.

    `schedule` is the time until the pod gets a node. A cluster that adds nodes on demand needs minutes. `start` is the
    time from then until the container runs. `image` is the time during which the image can't be pulled, for example
    because the registry fails. An invalid image name fails at once.
    """

    schedule: float = 600.0
    start: float = 600.0
    image: float = 60.0

    def seconds(self, limit: str) -> float:
        """Return the maximum seconds for a `pod_status.Pending` whose `limit` is `schedule`, `start` or `image`.

        For any other limit, return 0.
        """
        return {"schedule": self.schedule, "start": self.start, "image": self.image}.get(limit, 0.0)


def _to_stdout(line: str) -> None:
    print(without_controls(line, keep="\r"), file=sys.stdout, flush=True)  # noqa: T201 - the component's log goes to standard output


@dataclasses.dataclass(frozen=True)
class LaunchContext:
    """The environment of a launch. The defaults suit a program on one machine."""

    work_dir: Path | None = None
    """The working directory of this launch. The default is `.tfoperator/launches/<component>`."""
    tmp_path: str = ""
    """A directory that has the same path in the container, or a URL in an object store. The container may write
    output.json there. By default, the directory is in `work_dir`, and a pod returns output.json as its termination
    message.
    """
    store: OutputStore = dataclasses.field(default_factory=LocalOutputStore)
    retry: RetryPolicy = DEFAULT_POLICY
    api_retry: RetryPolicy = API_POLICY
    clean_up: CleanUp = CleanUp.ALWAYS
    pending: PendingLimits = PendingLimits()
    cache: bool = False
    """Whether the launch can reuse the outputs of an earlier execution with the same program, inputs and parameters."""
    resume: bool = True
    """If it is False, a launch that has ended starts again, and a launch that has not ended raises an error."""
    driver: Driver | None = None
    publisher: Publisher | None = None
    keeper: RecordKeeper | None = None
    """Reads and writes the launch record, in place of a file in `work_dir`."""
    objects: str = ""
    """The URL of an object store. For programs that can only use files, the launcher downloads and uploads the
    artifacts below this URL.
    """
    still_ours: Callable[[], object] = lambda: None  # only this machine can resume the launch
    """The launcher calls this function before it creates or stops anything. The function raises OwnershipLost if
    another launcher has taken over the launch.
    """
    namespace: str = ""
    kube: Callable[[], Client] = connect
    mount: Callable[[Sequence[FolderMount], Sequence[Path]], Sequence[str] | None] | None = None
    """Makes folders visible to a process at other paths.

    The function returns the words to put before the process's command, or None if this machine can't do it. The second
    argument has the folders that must stay visible. The function may raise PermanentFailure.
    """
    log: Callable[[str], object] = _to_stdout
    """Gets each line of the component's log. Any thread may call it, but only one thread at a time."""
    tell: Callable[[str], object] = logger.info
    """Gets the launcher's own messages. Any thread may call it."""
    clock: Clock = dataclasses.field(default_factory=SystemClock)
    random: Random = dataclasses.field(default_factory=Random)

    def directory_of(self, component: str) -> Path:
        """Return the working directory of a launch of a component."""
        return self.work_dir or Path(".tfoperator", "launches", component)

    def repeated(
        self,
        work: Callable[[], T],
        policy: RetryPolicy,
        worth_it: Callable[[BaseException], bool],
        *,
        cancelled: StopSignal,
        what: str,
    ) -> T:
        """Return the result of `work`. Retry by `policy` after an error for which `worth_it` returns True.

        Raises the last error of `work` unchanged. Raises LaunchCancelled if `cancelled` is set during a wait.
        """

        def wait(state: RetryCallState) -> float:
            return policy.delay(state.attempt_number, getattr(failure_of(state), "retry_after", None), self.random)

        def tell(state: RetryCallState) -> None:
            again = (
                f"attempt {state.attempt_number} of {policy.attempts} failed, the next attempt begins in "
                f"{state.upcoming_sleep:.1f} s"
            )
            logger.warning("%s: %s: %s", what, again, failure_of(state))

        def pause(seconds: float) -> None:
            if cancelled.wait(self.clock, seconds):
                raise LaunchCancelled(f"{what}: cancelled")

        return Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, Exception) and worth_it(error)),
            stop=stop_after_attempt(policy.attempts),
            wait=wait,
            sleep=pause,
            before_sleep=tell,
            reraise=True,
        )(work)

    def metadata_of(self, component: str) -> tuple[Driver, Publisher]:
        """Return the driver and the publisher. By default both keep files in the working directory."""
        local = LocalMetadata(self.directory_of(component) / "executions")
        return self.driver or local, self.publisher or local
