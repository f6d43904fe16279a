from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from hack.faults.injection.injector import FaultInjector
from hack.faults.journal import JournalRecorder
from tests.hack.faults.test_proxy import Behind, behind
from tests.support.eventually import eventually
from tests.support.served import Served, served
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ListPage, WatchEvent, WatchEventType

__all__ = ["served"]

Json = dict[str, Any]


@contextmanager
def cut_off(served: Served) -> Iterator[tuple[Behind, JournalRecorder]]:
    """A recorder that has seen the job `before`, and whose watches are away."""
    with (
        behind(served, FaultInjector("test", {}, {})) as there,
        JournalRecorder(there.client, there.world.namespace) as recorder,
    ):
        there.create("before")
        eventually(lambda: recorder.current("TFJob"), what="the job is recorded")
        there.proxy.cut()
        eventually(lambda: recorder.is_away, what="its watches are away")
        yield there, recorder


def test_the_gap_of_a_watch_that_is_away_has_no_end_until_it_is_back(served: Served) -> None:
    with cut_off(served) as (there, recorder):
        written = int(there.world.submit("meanwhile")["metadata"]["resourceVersion"])
        assert not is_whole(recorder, written)
        assert not is_whole(recorder, written + 1000)
        there.proxy.restore()
        eventually(lambda: not recorder.is_away, what="its watches are back")
        assert not is_whole(recorder, written)
        assert is_whole(recorder, written + 1000)
        assert [job["metadata"]["name"] for job in recorder.current("TFJob")] == ["before", "meanwhile"]


def test_what_a_write_told_of_and_is_gone_when_the_watch_is_back_was_deleted(served: Served) -> None:
    with cut_off(served) as (there, recorder):
        recorder.add(there.world.submit("meanwhile"), "TFJob")
        there.world.client.delete(TFJOBS, there.world.namespace, "meanwhile")
        there.proxy.restore()
        eventually(lambda: not recorder.is_away, what="its watches are back")
        changes = [(entry.name, entry.what) for entry in recorder.entries()]
        assert changes == [("before", "ADDED"), ("meanwhile", "MODIFIED"), ("meanwhile", "DELETED")]


def is_whole(recorder: JournalRecorder, version: int) -> bool:
    return not any(after < version <= until for after, until in recorder.gaps())


def test_a_version_that_the_watch_shows_after_the_answer_to_a_later_write_is_recorded() -> None:
    server = Slow({"name": "late", "uid": "1", "resourceVersion": "1"})
    with JournalRecorder(server, "default") as recorder:  # type: ignore[arg-type] # a client by its two methods
        eventually(lambda: recorder.current("TFJob"), what="the job is recorded")
        recorder.add({"metadata": {"name": "late", "uid": "1", "resourceVersion": "3"}}, "TFJob")
        server.show({"name": "late", "uid": "1", "resourceVersion": "2"})
        server.show({"name": "late", "uid": "1", "resourceVersion": "3"})
        server.show({"name": "late", "uid": "1", "resourceVersion": "4"})
        eventually(lambda: recorder.current("TFJob")[0]["metadata"]["resourceVersion"] == "4")
        assert [entry.version for entry in recorder.entries()] == [1, 2, 3, 4]


class Slow:
    """An API server with a job, whose watch of jobs shows what a test hands to `show`."""

    def __init__(self, metadata: Json) -> None:
        self._metadata = metadata
        self._events: SimpleQueue[WatchEvent[Json] | None] = SimpleQueue()

    def list(self, resource: Resource, *_: Any) -> ListPage[Json]:
        return ListPage(({"metadata": self._metadata},) if resource == TFJOBS else (), "1")

    def watch(self, resource: Resource, *_: Any) -> "Stream":
        return Stream(self._events if resource == TFJOBS else SimpleQueue())

    def show(self, metadata: Json) -> None:
        self._events.put(WatchEvent(WatchEventType.MODIFIED, {"metadata": metadata}))


class Stream:
    """A watch of what a queue brings, until it is closed. `close` is thread-safe."""

    def __init__(self, events: "SimpleQueue[WatchEvent[Json] | None]") -> None:
        self._events = events

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[WatchEvent[Json]]:
        return iter(self._events.get, None)

    def close(self) -> None:
        self._events.put(None)
