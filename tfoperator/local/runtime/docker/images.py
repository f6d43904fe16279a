"""Images: the pull policy, pulling, and the kubelet's reasons for errors.

Each pull has its own thread, because it may take minutes. So a pod that waits for a pull can be stopped meanwhile, and
the pod's status shows the reason.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

from docker.errors import ImageNotFound
from docker.utils import parse_repository_tag

from tfoperator.base.clock import Clock
from tfoperator.kube.views.pod_spec import Container
from tfoperator.local.runtime.docker.engine import ENGINE_ERRORS, explain
from tfoperator.local.runtime.protocol import LaunchError, StartLater

logger = logging.getLogger(__name__)

PULL_BACKOFF_BASE = 5.0
"""Seconds until a failed pull is retried. The time doubles with each retry. A kubelet starts with 10 seconds. Here a
user waits, so the delay is shorter.
"""
PULL_BACKOFF_CAP = 300.0
"""The maximum number of seconds between two attempts, as in the kubelet."""
PULLING = "ContainerCreating"
"""The `reason` in the status of a container that waits while its image is pulled."""
_POLL = 0.25  # seconds until a pod checks again whether a pull has ended
_PULL_VALID_SECONDS = 30.0
"""The number of seconds after a successful pull in which containers use the pulled image, and start no other pull of
it. So several containers can wait for the same pull.
"""


@dataclass
class _Pull:
    """A pull that is running or has ended. The lock of `Images` guards it."""

    running: bool = True
    error: str = ""
    failures: int = 0
    ended: float = 0.0  # on the monotonic clock

    @property
    def delay(self) -> float:
        return min(PULL_BACKOFF_CAP, PULL_BACKOFF_BASE * 2.0 ** min(self.failures - 1, 20))


class Images:
    """Pulls images.

    Thread-safe. `close()` waits up to 1 s for each pull. A pull that hangs ends together with the process.
    """

    def __init__(self, api: Any, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()  # guards the three fields below
        self._pulls: dict[str, _Pull] = {}
        self._threads: list[threading.Thread] = []
        self._not_pulled: set[str] = set()

    def ensure(self, container: Container) -> None:
        """Make sure that the container's image is present, as its pull policy requires.

        Raises StartLater if the image is not present yet. Raises LaunchError if the container names no image.
        """
        image = container.image
        if not image:
            raise LaunchError(f"container {container.name!r} has no image")
        policy = pull_policy(container)
        if policy != "Always" and self._is_there(image):
            return
        if policy == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            raise StartLater("ErrImageNeverPull", message, PULL_BACKOFF_BASE, event="Failed")
        try:
            self._pulled(image, policy)
        except StartLater as problem:
            # The API server's default policy for `latest` is Always. If the pull fails, use the image of this machine,
            # which the user may have just built.
            if problem.reason == PULLING or not _is_latest(image) or not self._is_there(image):
                raise
            with self._lock:
                first_time = image not in self._not_pulled
                self._not_pulled.add(image)
            if first_time:
                hint = "to avoid the attempt, set imagePullPolicy IfNotPresent"
                logger.warning("image %s can't be pulled, so the image on this machine is used; %s", image, hint)

    def close(self) -> None:
        """Wait until the pulls have ended, up to one second for each pull."""
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join(1.0)

    def _is_there(self, image: str) -> bool:
        try:
            self._api.inspect_image(image)
        except ImageNotFound:
            return False
        except ENGINE_ERRORS as error:
            raise StartLater("ImageInspectError", f'Failed to inspect image "{image}": {explain(error)}', 2.0) from None
        return True

    def _pulled(self, image: str, policy: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            pull = self._pulls.get(image)
            if pull is None or (not pull.running and self._is_over(pull, now)):
                failures = pull.failures if pull is not None and pull.error else 0
                pull = self._pulls[image] = _Pull(failures=failures)
                thread = threading.Thread(target=self._pull, args=(image, pull), name=f"pull-{image}", daemon=True)
                self._threads = [puller for puller in self._threads if puller.is_alive()] + [thread]
                thread.start()
            if pull.running:
                raise StartLater(PULLING, f'Pulling image "{image}"', _POLL)
            if not pull.error:
                return
            if now - pull.ended > _POLL * 4:
                left = pull.ended + pull.delay - now
                raise StartLater(
                    "ImagePullBackOff", f'Back-off pulling image "{image}": {pull.error}', max(left, _POLL)
                )
        hint = (
            "; an image that exists only on this machine needs imagePullPolicy IfNotPresent"
            if policy == "Always"
            else ""
        )
        raise StartLater(
            "ErrImagePull", f'Failed to pull image "{image}": {pull.error}{hint}', _POLL * 5, event="Failed"
        )

    def _is_over(self, pull: _Pull, now: float) -> bool:
        return now - pull.ended >= (pull.delay if pull.error else _PULL_VALID_SECONDS)

    def _pull(self, image: str, pull: _Pull) -> None:
        problem = ""
        try:
            repository, tag = parse_repository_tag(image)
            logger.info("pulling image %s", image)
            for line in self._api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                problem = str(line.get("error") or problem)
        except ENGINE_ERRORS as error:
            problem = explain(error)
        except ValueError as error:  # the library's error for a broken stream
            problem = str(error)
        with self._lock:
            pull.running = False
            pull.ended = self._clock.monotonic()
            pull.error = problem
            pull.failures = pull.failures + 1 if problem else 0


def pull_policy(container: Container) -> str:
    """Return the container's pull policy.

    If the container has no pull policy, return Kubernetes' default: Always if the image has the tag `latest` or neither
    tag nor digest, otherwise IfNotPresent.
    """
    return container.image_pull_policy or ("Always" if _is_latest(container.image) else "IfNotPresent")


def _is_latest(image: str) -> bool:
    return parse_repository_tag(image)[1] in (None, "", "latest")
