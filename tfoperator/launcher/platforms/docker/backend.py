"""Runs a launch's container on a Docker engine: creates it, waits until it ends, forwards its log, removes it.

This module and `client.py` import docker-py, so `launcher.py` imports them only during a launch. Other launches do not
need docker-py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from docker import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container

from tfoperator.base.clock import StopSignal
from tfoperator.launcher.container.backend import LAUNCH_LABEL, Launch, LogForwarder, NeverStarted
from tfoperator.launcher.core.component import Json
from tfoperator.launcher.core.context import CLEAN_UP_POLICY
from tfoperator.launcher.core.errors import PermanentFailure, PlatformUnavailable
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.core.output_document import OUTPUT_FILE
from tfoperator.launcher.platforms.docker.client import connect_log, read_events, read_file
from tfoperator.launcher.platforms.docker.history import EndCause, cause_of_end

logger = logging.getLogger(__name__)

T = TypeVar("T")

_GRACE_SECONDS = 10  # seconds between SIGTERM and SIGKILL, as in `docker stop`

_TRANSIENT_CODES = frozenset({502, 503, 504})
"""Status codes after which a request is retried. 500 is not in this list, because the Docker engine also returns it for
errors of the caller, such as an invalid volume.
"""
_SERVER_ERRORS = frozenset(range(500, 600))
"""Status codes after which a pull or a removal is retried. For a pull, the engine returns 500 if the registry fails."""


class DockerBackend:
    """The `container.Backend` of a Docker engine.

    `call` has the arguments of docker's `containers.create`, without a name.
    """

    def __init__(self, launch: Launch, client: DockerClient, call: Json, pull: str, output_path: str = "") -> None:
        """Set `output_path` to the path of output.json in the container if the launcher may be unable to read the file.

        output.json is the program's own report of its outcome. With `output_path`, the backend reads the file through
        the engine, which may run on another machine. `pull` is `missing`, `always` or `never`.
        """
        self._launch = launch
        self._context = launch.context
        self._client = client
        self._call = call
        self._pull = pull
        self._output_path = output_path
        self._grace = int(call.get("stop_timeout") or _GRACE_SECONDS)
        self._log: LogForwarder | None = None

    def create(self, name: str) -> str:
        """Create the container, or find the container that this launch has created. Return its id. `wait` starts it."""
        run, call = self._launch.run, dict(self._call)
        image = call.pop("image")
        call["labels"] = {**_labels(call.get("labels")), LAUNCH_LABEL: run}
        self._fetch(image)

        def create() -> Container:
            try:
                return self._client.containers.create(image, name=name, **call)
            except APIError as error:
                if error.status_code != 409:
                    raise
                # The name exists. This launch may have created the container, if the response to the request was lost,
                # or if an earlier launcher was killed before it could record the id.
                existing = self._client.containers.get(name)
                if existing.labels.get(LAUNCH_LABEL) != run:
                    raise PermanentFailure(f"container {name} exists, but belongs to another launch") from error
                return existing

        try:
            container = self._patiently(f"create container {name}", create)
        except ImageNotFound as error:
            raise PermanentFailure(
                f"image {image} does not exist on this machine, and the config forbids to pull it"
            ) from error
        except NotFound as error:
            raise PermanentFailure(f"the Docker engine refuses the container: {error.explanation or error}") from error
        except (TypeError, ValueError, DockerException) as error:  # docker-py's own checks of its arguments
            raise PermanentFailure(f"the platform config is not valid for docker: {error}") from error
        self._context.tell(f"container {name} created")
        return str(container.id)

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Start the container if necessary, and wait until it ends. A container that was removed counts as lost."""
        lost = ContainerEnd(None, f"container {name} was removed before it had succeeded", lost=True)
        try:
            container = self._patiently(f"find container {name}", lambda: self._client.containers.get(uid))
            if container.status == "created":
                self._start(container)
            return self._follow(container, lost)
        except NotFound:
            return lost

    def ended(self, name: str, uid: str) -> ContainerEnd | None:
        """Return how the container ended, after its whole log was forwarded.

        Return None if the container has not ended, does not exist, or belongs to another launch.
        """
        try:
            container = self._patiently(f"find container {name}", lambda: self._client.containers.get(uid or name))
        except NotFound:
            return None
        if container.labels.get(LAUNCH_LABEL) != self._launch.run or container.status != "exited":
            return None
        self._launch.forward_log(name, lambda since: connect_log(container, since)).finish()
        return self._ended(container, int(container.attrs["State"]["ExitCode"]), ContainerEnd(lost=True))

    def stop(self, name: str, uid: str) -> None:
        """Stop the container with its grace period, and remove it."""
        self._context.tell(f"stopping container {name}")
        self._quietly(name, uid, lambda container: container.stop(timeout=self._grace))
        if self._log is not None:
            self._log.finish(2.0)
            self._log = None
        self.remove(name, uid)

    def remove(self, name: str, uid: str) -> None:
        """Remove the container and its anonymous volumes."""
        self._quietly(name, uid, lambda container: container.remove(v=True, force=True))

    def _fetch(self, image: str) -> None:
        def present() -> bool:
            try:
                self._client.images.get(image)
            except ImageNotFound:
                return False
            return True

        if self._pull == "never" or (self._pull == "missing" and self._patiently(f"find image {image}", present)):
            return
        self._context.tell(f"pulling image {image}")
        try:
            self._patiently(f"pull image {image}", lambda: self._client.images.pull(image), _SERVER_ERRORS)
        except NotFound as error:
            raise PermanentFailure(f"image {image} can't be pulled: {error.explanation or error}") from error

    def _start(self, container: Container) -> None:
        try:
            container.start()
        except APIError as error:  # for example 400 or 500, if the program, a mount or a device does not exist
            raise NeverStarted(f"container {container.name} can't be started: {error.explanation or error}") from error

    def _follow(self, container: Container, lost: ContainerEnd) -> ContainerEnd:
        mailbox = self._launch.mailbox
        mailbox.clear()
        waiter = threading.Thread(target=self._await, args=(container,), name=f"wait-{container.name}")
        waiter.daemon = True
        waiter.start()
        log = self._log = self._launch.forward_log(container.name, lambda since: connect_log(container, since))
        while True:
            self._launch.check_cancelled(f"container {container.name}")
            match mailbox.take():
                case int(code):
                    break
                case BaseException() as error:
                    log.finish(0.0)
                    raise error
        log.finish()
        self._log = None
        waiter.join(5.0)
        return self._ended(container, code, lost)

    def _await(self, container: Container) -> None:
        try:
            answer = self._patiently(f"wait for container {container.name}", lambda: container.wait(timeout=None))
            self._launch.mailbox.put(int(answer["StatusCode"]))
        except BaseException as error:  # noqa: BLE001 - the launching thread raises it
            self._launch.mailbox.put(error)

    def _ended(self, container: Container, code: int, lost: ContainerEnd) -> ContainerEnd:
        cause = self._cause(container)
        try:
            self._patiently(f"inspect container {container.name}", container.reload)
        except NotFound:
            return ContainerEnd(0) if code == 0 and cause is EndCause.ITSELF else lost
        state, name = container.attrs["State"], container.name
        if state.get("Running"):  # somebody has restarted the container, for example with `docker restart`
            self._quietly(name, str(container.id), lambda restarted: restarted.stop(timeout=self._grace))
        reasons = ["OOMKilled"] if state.get("OOMKilled") else []
        reasons += [state["Error"]] if state.get("Error") else []
        image_id = container.attrs.get("Image", "")
        end = ContainerEnd(code, ": ".join(reasons), output=self._output(container), image_id=image_id)
        if cause is EndCause.STOPPED:
            message = f"container {name} was stopped by another program, and then ended with exit code {code}"
        elif cause is EndCause.UNKNOWN and code == 0:
            message = (
                f"container {name} ended with exit code 0, but the Docker engine no longer has the event of its end, "
                "because the engine was restarted, or has had many events since then. So it is unknown whether the "
                "container was stopped"
            )
        else:
            return end
        return msgspec.structs.replace(end, exit_code=None, message=message, lost=True)

    def _cause(self, container: Container) -> EndCause:
        """Return whether the program ended by itself or was stopped, from the engine's events.

        Return UNKNOWN if the engine has no event of the end. If the engine refuses to report events, assume that the
        program ended by itself.
        """
        stop_signal = container.attrs.get("Config", {}).get("StopSignal") or ""
        try:
            return self._patiently(
                f"read the events of container {container.name}",
                lambda: cause_of_end(read_events(self._client, container), stop_signal),
            )
        except (PermanentFailure, NotFound) as error:
            logger.warning("it is not known whether another program stopped container %s: %s", container.name, error)
            return EndCause.ITSELF

    def _output(self, container: Container) -> bytes | None:
        """Return output.json, which the engine reads from the container.

        Return None if there is no such file, or if the launcher itself can read the file (no `output_path`).
        """
        if not self._output_path:
            return None
        try:
            return self._patiently(
                f"read {OUTPUT_FILE} of container {container.name}", lambda: read_file(container, self._output_path)
            )
        except NotFound:
            return None

    def _quietly(self, name: str, uid: str, act: Callable[[Container], object]) -> None:
        """Run an action on the container if it still exists and belongs to this launch. Log a failure."""

        def once() -> None:
            container = self._client.containers.get(uid or name)
            if container.labels.get(LAUNCH_LABEL) == self._launch.run:
                act(container)

        try:
            self._context.repeated(
                once, CLEAN_UP_POLICY, _worth_it(_SERVER_ERRORS), cancelled=StopSignal(), what=f"remove {name}"
            )
        except NotFound:
            pass
        except (DockerException, OSError) as error:
            logger.warning("container %s could not be removed: %s", name, error)

    def _patiently(self, what: str, call: Callable[[], T], passing: frozenset[int] = _TRANSIENT_CODES) -> T:
        """Return the result of a call to the engine. Retry if there is no response, or a status in `passing`.

        Raises PlatformUnavailable if all retries fail, PermanentFailure for other status codes, and NotFound unchanged.
        """
        try:
            return self._context.repeated(
                call, self._context.api_retry, _worth_it(passing), cancelled=self._launch.cancelled, what=what
            )
        except NotFound:
            raise
        except APIError as error:
            explanation = error.explanation or error
            if error.status_code in passing:
                raise PlatformUnavailable(f"{what}: the Docker engine fails: {explanation}") from error
            raise PermanentFailure(f"{what}: the Docker engine refuses it: {explanation}") from error
        except OSError as error:
            raise PlatformUnavailable(f"{what}: the Docker engine can't be reached: {error}") from error


def _worth_it(passing: frozenset[int]) -> Callable[[BaseException], bool]:
    """Return a function that returns whether a call is retried after an error.

    The function returns True for a response with one of the status codes `passing`, and if there was no response.
    """

    def worth_it(error: BaseException) -> bool:
        # docker-py's other errors come from requests, and are OSErrors: refused, reset, timed out.
        return error.status_code in passing if isinstance(error, APIError) else isinstance(error, OSError)

    return worth_it


def _labels(labels: Any) -> Json:
    """Return labels as a dictionary. docker-py also accepts a list of names."""
    return dict(labels) if isinstance(labels, dict) else dict.fromkeys(labels or (), "")
