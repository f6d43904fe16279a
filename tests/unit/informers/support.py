"""Common parts of informers' tests: objects, a clock that never waits, a scripted server, a server with a memory."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.support.fake_api import Call, FakeApi
from tfoperator.kube.protocol.errors import (
    KubeError,
    Status,
    StatusCause,
    StatusDetails,
    TransportError,
    error_from_status,
)
from tfoperator.kube.protocol.options import LIST_ALL, WATCH_FROM_NOW, ListOptions, WatchOptions
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import ListPage, ListWatch, WatchEvent, WatchEventType, WatchStream
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, OwnerReference, Pod, decode_pod
from tfoperator.kube.watching.reflector import Listed, News


def pod(name: str, version: int | str = 1, *, namespace: str = "ns", uid: str = "", owner: str = "") -> Pod:
    owners = (OwnerReference(uid=owner, controller=True),) if owner else ()
    more = {"uid": uid or f"uid-{name}", "resource_version": str(version), "owner_references": owners}
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, **more))


def status(code: int, message: str = "", *, reason: str = "", cause: str = "", cause_message: str = "") -> Status:
    causes = (StatusCause(reason=cause, message=cause_message),) if cause or cause_message else ()
    return Status(code=code, reason=reason, message=message, details=StatusDetails(causes=causes))


def api_error(code: int, message: str = "", *, retry_after: float | None = None, **kwargs: str) -> KubeError:
    return error_from_status(status(code, message, **kwargs), retry_after=retry_after)


def page(*objects: Any, version: int | str, token: str = "") -> ListPage[Any]:
    return ListPage(tuple(objects), str(version), token)


def added(obj: Any) -> WatchEvent[Any]:
    return WatchEvent(WatchEventType.ADDED, obj)


def modified(obj: Any) -> WatchEvent[Any]:
    return WatchEvent(WatchEventType.MODIFIED, obj)


def deleted(obj: Any) -> WatchEvent[Any]:
    return WatchEvent(WatchEventType.DELETED, obj)


def bookmark(version: int | str, *, initial_events_end: bool = False) -> WatchEvent[Any]:
    return WatchEvent(WatchEventType.BOOKMARK, None, str(version), initial_events_end)


def synced(version: int | str) -> WatchEvent[Any]:
    """The bookmark that ends the initial events."""
    return bookmark(version, initial_events_end=True)


class ImpatientClock:
    """A clock on which a wait with a deadline ends at once, as if the deadline had come; `waits` are the lengths."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.waits: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.elapsed

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        assert deadline is not None, "this would wait for ever"
        self.waits.append(deadline - self.elapsed)
        self.elapsed = max(self.elapsed, deadline)
        return False

    def pass_time(self, seconds: float) -> Callable[[], None]:
        """For a script: let time go by while a watch is open."""

        def step() -> None:
            self.elapsed += seconds

        return step


Step = WatchEvent[Any] | Exception | Callable[[], None]


class ScriptedStream:
    """Yields the events of a script, runs its functions, raises its exceptions, and ends where the script ends.

    Up to `batch_size` events come together if nothing is between them.
    """

    batch_size = 1

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self.closed = False

    def batches(self) -> Iterator[Sequence[WatchEvent[Any]]]:
        steps = deque(self._steps)
        while steps and not self.closed:
            step = steps.popleft()
            if isinstance(step, WatchEvent):
                batch = [step]
                while len(batch) < self.batch_size and steps and isinstance(steps[0], WatchEvent):
                    batch.append(steps.popleft())  # type: ignore[arg-type]  # mypy forgets what steps[0] is
                yield batch
            elif isinstance(step, Exception):
                raise step
            else:
                step()

    def close(self) -> None:
        self.closed = True


class Script:
    """A ListWatch that answers in the order of a script, and calls `at_end` when it is asked for more."""

    def __init__(
        self, *, lists: Sequence[ListPage[Any] | Exception] = (), watches: Sequence[Sequence[Step] | Exception] = ()
    ) -> None:
        self._lists = deque(lists)
        self._watches = deque(watches)
        self.list_calls: list[ListOptions] = []
        self.watch_calls: list[WatchOptions] = []
        self.streams: list[ScriptedStream] = []
        self.at_end: Callable[[], None] = lambda: None

    @property
    def listed_versions(self) -> list[str]:
        return [call.resource_version for call in self.list_calls if not call.continue_token]

    @property
    def watched_versions(self) -> list[str]:
        return [call.resource_version for call in self.watch_calls]

    def list(self, options: ListOptions = LIST_ALL) -> ListPage[Any]:
        if not self._lists:
            self.at_end()
            raise TransportError("the script has no further list")
        self.list_calls.append(options)
        answer = self._lists.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self) -> None:
        pass

    def watch(self, options: WatchOptions = WATCH_FROM_NOW) -> ScriptedStream:
        if not self._watches:
            self.at_end()
            return ScriptedStream([])
        self.watch_calls.append(options)
        answer = self._watches.popleft()
        if isinstance(answer, Exception):
            raise answer
        self.streams.append(ScriptedStream(answer))
        return self.streams[-1]


class Reader:
    """Keeps what a reflector yields, and the state that results."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.sizes: list[int] = []  # of the batches
        self.state: dict[str, Any] = {}

    def take(self, news: News[Any]) -> None:
        if isinstance(news, Listed):
            self.calls.append(("replace", sorted(obj.metadata.name for obj in news.objects)))
            self.state = {obj.metadata.key: obj for obj in news.objects}
            return
        self.sizes.append(len(news))
        for event in news:
            if event.type is WatchEventType.DELETED:
                self.calls.append(("delete", event.object.metadata.name))
                self.state.pop(event.object.metadata.key, None)
            elif event.object is not None:
                self.calls.append(("upsert", event.object.metadata.name))
                self.state[event.object.metadata.key] = event.object

    @property
    def names(self) -> list[str]:
        return sorted(obj.metadata.name for obj in self.state.values())


class Server(ListWatch[Pod]):
    """The pods of an API server, with faults to be had on request: `failures` are the answers to the next requests."""

    def __init__(self, *, watch_list: bool = True) -> None:
        self.api = FakeApi()
        super().__init__(self.api, PODS, "", decode_pod)
        self._watch_list = watch_list
        self.failures: deque[Exception] = deque()
        self.api.react(self._fail_if_asked)

    def watch(self, options: WatchOptions = WATCH_FROM_NOW) -> WatchStream[Pod]:
        if options.send_initial_events and not self._watch_list:
            raise api_error(422, "sendInitialEvents is forbidden")
        return super().watch(options)

    def _fail_if_asked(self, _: Call) -> None:
        if self.failures:
            raise self.failures.popleft()

    def put(self, name: str, *, namespace: str = "ns", owner: str = "") -> None:
        """Create or update."""
        owners = [{"uid": owner, "controller": True}] if owner else []
        self.api.put(PODS, {"metadata": {"name": name, "namespace": namespace, "ownerReferences": owners}})

    def remove(self, name: str) -> None:
        """If it is there."""
        if name in self.api.names(PODS):
            self.api.remove(PODS, "ns", name)

    @property
    def state(self) -> dict[str, str]:
        metas = [obj["metadata"] for obj in self.api.objects(PODS)]
        return {f"{meta['namespace']}/{meta['name']}": meta["resourceVersion"] for meta in metas}


class View:
    """A handler that builds its own picture of the collection out of nothing but its calls, and checks each.

    Then it calls `added` with a new object, and `updated` with an old and a new object.
    """

    def __init__(
        self, added: Callable[[Any], object] | None = None, updated: Callable[[Any, Any], object] | None = None
    ) -> None:
        self._added, self._updated = added, updated
        self.calls: list[tuple[str, str]] = []
        self.objects: dict[str, HasMetadata] = {}
        self.wrong: list[str] = []

    @property
    def state(self) -> dict[str, str]:
        return {key: obj.metadata.resource_version for key, obj in dict(self.objects).items()}

    def on_add(self, obj: Any) -> None:
        self.calls.append(("add", obj.metadata.name))
        if obj.metadata.key in self.objects:
            self.wrong.append(f"added twice: {obj.metadata.key}")
        self.objects[obj.metadata.key] = obj
        if self._added is not None:
            self._added(obj)

    def on_update(self, old: Any, new: Any) -> None:
        self.calls.append(("update", new.metadata.name))
        if self.objects.get(new.metadata.key) != old:
            self.wrong.append(f"old of an update was never announced: {new.metadata.key}")
        self.objects[new.metadata.key] = new
        if self._updated is not None:
            self._updated(old, new)

    def on_delete(self, obj: Any) -> None:
        self.calls.append(("delete", obj.metadata.name))
        self.objects.pop(obj.metadata.key, None)
