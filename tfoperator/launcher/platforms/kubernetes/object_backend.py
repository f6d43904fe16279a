"""Creates a pod or TFJob of a launch once, waits for its end, stops it and removes it."""

from __future__ import annotations

import abc
import copy
import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from tfoperator.kube import by_name
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import AlreadyExistsError, KubeError, NotFoundError, UnauthorizedError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import WatchEventType, decoder
from tfoperator.kube.views.objects import HasMetadata, PartialObject
from tfoperator.kube.views.pod_spec import DEFAULT_GRACE_SECONDS
from tfoperator.kube.watching.following import Follower
from tfoperator.launcher.container.backend import LAUNCH_LABEL, Launch, NeverStarted
from tfoperator.launcher.core.component import Json
from tfoperator.launcher.core.errors import LaunchCancelled, PermanentFailure, PlatformUnavailable
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls

logger = logging.getLogger(__name__)

V = TypeVar("V", bound=HasMetadata)

_BEYOND_GRACE = 30.0  # seconds that the deletion of a pod may take after its grace period
_RETRY_SECONDS = 2.0  # seconds before a failed watch is retried

_decode = decoder(PartialObject)


class Gone(msgspec.Struct, frozen=True):
    """A message in `Launch.mailbox`: the watched object does not exist, or does not exist any more."""


class ObjectWait(abc.ABC, Generic[V]):
    """Waits for the end of a pod or TFJob, and forwards its logs meanwhile.

    ObjectBackend watches the object, and calls `seen`, `gone`, `check_deadline` and `finish`.
    """

    resource: ClassVar[Resource]

    def __init__(self, launch: Launch, calls: ApiCalls, name: str, uid: str) -> None:
        self._launch = launch
        self._calls = calls
        self._name = name
        self._uid = uid

    @staticmethod
    @abc.abstractmethod
    def decode(data: bytes, /) -> V:
        """Decode the JSON of the object."""

    @property
    def deadline(self) -> float | None:
        """The time of `clock.monotonic()` at which `check_deadline` must be called, or None if there is no limit."""
        return None

    @abc.abstractmethod
    def seen(self, state: V) -> ContainerEnd | None:
        """Handle a change of the object. Return the end of its container, if the container has ended."""

    @abc.abstractmethod
    def gone(self) -> ContainerEnd:
        """Handle the object's deletion. Return the end of its container."""

    def check_deadline(self) -> None:
        """Raise NeverStarted if the object has waited for too long."""

    @abc.abstractmethod
    def finish(self, seconds: float = 10.0) -> None:
        """Forward the rest of the logs after the wait, for at most this number of seconds."""


class ObjectBackend:
    """The `container.Backend` for a pod or a TFJob.

    `kind` is the class that waits for the end of the object. `manifest` is the object's manifest, without a name.
    """

    def __init__(
        self, launch: Launch, client: Client, namespace: str, kind: type[ObjectWait[Any]], manifest: Json
    ) -> None:
        self.launch = launch
        self.calls = ApiCalls(client, namespace, launch)
        self._kind = kind
        self._resource = kind.resource
        self._manifest = manifest
        self._grace = manifest.get("spec", {}).get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        self._interrupted: ObjectWait[Any] | None = None  # the wait that a cancellation or NeverStarted has ended

    def create(self, name: str) -> str:
        """Create the object, unless this launch has already created it with this name. Return its UID.

        Raises PermanentFailure if the object of this name belongs to another launch.
        """
        calls, run, resource = self.calls, self.launch.run, self._resource
        body = copy.deepcopy(self._manifest)
        body["metadata"] |= {"name": name, "labels": {**body["metadata"].get("labels", {}), LAUNCH_LABEL: run}}
        what = self._shown(name)
        try:
            made = calls.patiently(
                f"create {what}", lambda: calls.client.create(resource, calls.namespace, body, _decode)
            )
        except AlreadyExistsError as error:
            # This launch may have created the object, if the response to the request was lost, or if an earlier
            # launcher was killed before it could record the UID.
            made = calls.patiently(f"get {what}", lambda: calls.client.get(resource, calls.namespace, name, _decode))
            if made.metadata.labels.get(LAUNCH_LABEL) != run:
                raise PermanentFailure(f"{what} exists, but belongs to another launch") from error
        self.launch.context.tell(f"{what} created")
        return made.metadata.uid

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Watch the object until its container ends. Raises PlatformUnavailable if too many watches in a row fail.

        If a watch has received a state of the object, the count of failed watches begins again.
        """
        launch = self.launch
        launch.mailbox.clear()
        wait = self._kind(launch, self.calls, name, uid)
        failures = 0
        try:
            while True:
                with self._following(name, uid):
                    outcome, heard = self._watch(wait, name)
                if isinstance(outcome, ContainerEnd):
                    break
                failures = 1 if heard else failures + 1
                if not (self.calls.may_pass(outcome) or isinstance(outcome, UnauthorizedError)):
                    raise outcome
                if failures >= launch.context.api_retry.attempts:
                    raise PlatformUnavailable(f"the objects can't be watched: {outcome}") from outcome
                launch.cancelled.wait(launch.context.clock, _RETRY_SECONDS)
        except (LaunchCancelled, NeverStarted):
            self._interrupted = wait  # the container still runs; `stop` forwards its last log lines
            raise
        except BaseException:
            wait.finish(0.0)
            raise
        wait.finish()
        return outcome

    def ended(self, name: str, uid: str) -> ContainerEnd | None:
        """Return how the container ended, after its whole log was forwarded, or None if it runs or does not exist.

        With `uid`, an object of this name with another UID does not count.
        """
        calls = self.calls
        try:
            state = calls.patiently(
                f"get {self._shown(name)}",
                lambda: calls.client.get(self._resource, calls.namespace, name, self._kind.decode),
            )
        except NotFoundError:
            return None
        meta = state.metadata
        if meta.labels.get(LAUNCH_LABEL) != self.launch.run or uid not in ("", meta.uid):
            return None
        wait = self._kind(self.launch, calls, name, meta.uid)
        end: ContainerEnd | None = None
        try:
            end = wait.seen(state)
        finally:
            wait.finish(10.0 if end is not None else 0.0)
        return end

    def stop(self, name: str, uid: str) -> None:
        """Delete the object with its grace period, and wait until it no longer exists. Errors are only logged."""
        self.launch.context.tell(f"stopping {self._shown(name)}")
        self.remove(name, uid)
        self._wait_until_gone(name, uid)
        if self._interrupted is not None:
            self._interrupted.finish()  # forwards the last lines, which the program has logged after SIGTERM
            self._interrupted = None

    def remove(self, name: str, uid: str) -> None:
        """Delete the object."""
        self.calls.delete(self._resource, name, uid)

    @contextmanager
    def _following(self, name: str, uid: str) -> Iterator[None]:
        """Within the `with` block, put each new state of the object into `launch.mailbox`, from another thread.

        If the object does not exist or is deleted, the thread puts `Gone`. If the API server refuses the watch, the
        thread puts the KubeError.
        """
        follower = Follower(self.calls.client, self._resource, self.calls.namespace, self._kind.decode, by_name(name))
        mailbox = self.launch.mailbox

        def follow() -> None:
            observed = False
            try:
                with closing(iter(follower)) as changes:
                    for change in changes:
                        state = change.object
                        if state is not None and uid in ("", state.metadata.uid):
                            observed = True
                            mailbox.put(state)
                            if change.type is WatchEventType.DELETED:
                                mailbox.put(Gone())
                        # The first bookmark means that the first list is complete: it does not contain the object.
                        elif change.type is WatchEventType.BOOKMARK and not observed:
                            mailbox.put(Gone())
            except KubeError as error:
                mailbox.put(error)

        thread = threading.Thread(target=follow, name=f"follow-{name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            follower.close()
            thread.join(10.0)

    def _watch(self, wait: ObjectWait[Any], name: str) -> tuple[ContainerEnd | KubeError, bool]:
        """Process messages from `launch.mailbox` until the container ends, or a request to the API server fails.

        Return the container's end or the error, and whether a state of the object was received.
        """
        heard = False
        while True:
            self.launch.check_cancelled(f"{self._resource.kind} {name}")
            match self.launch.mailbox.take(wait.deadline):
                case Gone():
                    return wait.gone(), heard
                case KubeError() as error:
                    return error, heard
                case None:
                    pass  # the deadline has passed, or `cancel` has woken this thread
                case state:
                    heard = True
                    if (end := wait.seen(state)) is not None:
                        return end, heard
            wait.check_deadline()

    def _wait_until_gone(self, name: str, uid: str) -> None:
        clock, what = self.launch.context.clock, self._shown(name)
        self.launch.mailbox.clear()
        deadline = clock.monotonic() + self._grace + _BEYOND_GRACE
        with self._following(name, uid):
            while clock.monotonic() < deadline:
                match self.launch.mailbox.take(deadline):
                    case Gone():
                        return
                    case KubeError() as error:
                        logger.warning("it is not known whether %s is gone: %s", what, error)
                        return
        logger.warning("%s still exists although it was deleted", what)

    def _shown(self, name: str) -> str:
        return f"{self._resource.kind} {self.calls.namespace}/{name}"
