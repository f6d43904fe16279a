from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.unit.local.apiserver.samples import World, named, refused
from tfoperator.local.apiserver.display.representation import Wanted, representation
from tfoperator.local.apiserver.display.tables import table_formats
from tfoperator.local.apiserver.http.watch_streams import Watcher, check_watch_options, serve
from tfoperator.local.apiserver.resource_types import BUILTIN
from tfoperator.local.apiserver.storage.listing import ListRequest
from tfoperator.local.apiserver.storage.store import Store

SECRETS = next(resource for resource in BUILTIN if resource.plural == "secrets")
TABLE = table_formats(BUILTIN, [])[SECRETS]


def watcher(store: Store, *, form: str = "", backlog_limit: int = 1000, **query: str) -> Watcher:
    options = ListRequest.parse(SECRETS, query)
    encoder = representation(Wanted(form), SECRETS, TABLE, FakeClock())
    return Watcher(store, SECRETS, "", options, encoder, backlog_limit=backlog_limit)


def events(one: Watcher) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in one.take().splitlines()]


def secret(world: World, name: str, **labels: str) -> None:
    world.create(SECRETS, named(name, **labels))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["in", "out", "delete"])), max_size=25),
    st.integers(0, 25),
)
def test_a_selection_followed_by_its_events_is_the_selection(steps: list[tuple[str, str]], start: int) -> None:
    world = World(history_limit=1000)
    revision, mirror = world.store.revision, set()
    selector = {"labelSelector": "on=1"}
    for index, (name, action) in enumerate(steps):
        if index == start:
            revision = world.store.revision
            mirror = {s.metadata["name"] for s in world.store.objects(SECRETS) if "on" in s.metadata.get("labels", {})}
        labels = {"on": "1"} if action == "in" else {"n": str(index)}
        exists = world.store.get(SECRETS, f"ns/{name}") is not None
        if action == "delete":
            if exists:
                world.store.delete(SECRETS, f"ns/{name}")
        elif exists:
            world.update(SECRETS, name, metadata={"name": name, "labels": labels})
        else:
            secret(world, name, **labels)

    for event in events(watcher(world.store, resourceVersion=str(revision), **selector)):
        name = event["object"]["metadata"]["name"]
        assert (event["type"] == "ADDED") is (name not in mirror)
        (mirror.discard if event["type"] == "DELETED" else mirror.add)(name)

    now = {s.metadata["name"] for s in world.store.objects(SECRETS) if "on" in s.metadata.get("labels", {})}
    assert mirror == now


def test_a_version_older_than_the_history_ends_with_an_error_event() -> None:
    world = World(history_limit=2)
    start = world.store.revision
    for name in "abc":
        secret(world, name)

    one = watcher(world.store, resourceVersion=str(start))

    (event,) = events(one)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert one.closed


def test_a_version_from_another_servers_future_has_expired_too(world: World) -> None:
    (event,) = events(watcher(world.store, resourceVersion=str(world.store.revision + 1)))

    assert event["object"]["code"] == 410


def test_initial_events_from_the_future_are_refused_before_the_stream_begins(world: World) -> None:
    with refused(504):
        watcher(world.store, resourceVersion=str(world.store.revision + 1), sendInitialEvents="true")


def test_without_initial_events_and_version_a_watch_begins_now(world: World) -> None:
    secret(world, "before")
    one = watcher(world.store, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    secret(world, "after")

    assert [event["object"]["metadata"]["name"] for event in events(one)] == ["after"]


def test_the_end_of_initial_events_is_told_only_to_those_who_take_bookmarks(world: World) -> None:
    with_bookmarks = events(watcher(world.store, sendInitialEvents="true", allowWatchBookmarks="true"))
    without = events(watcher(world.store, sendInitialEvents="true"))

    (end,) = with_bookmarks
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert without == []


def test_a_client_that_does_not_read_is_cut_off(world: World) -> None:
    one = watcher(world.store, backlog_limit=3, resourceVersion=str(world.store.revision))
    for name in "abcdef":
        secret(world, name)

    assert one.closed
    assert len(events(one)) == 4


def test_a_closed_watch_observes_nothing_more(world: World) -> None:
    one = watcher(world.store, resourceVersion=str(world.store.revision))
    one.close()
    secret(world, "a")
    one.bookmark()

    assert events(one) == []


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadata"])
def test_bookmarks_have_the_form_of_the_watch(form: str, world: World) -> None:
    one = watcher(world.store, form=form, allowWatchBookmarks="true", resourceVersion=str(world.store.revision))
    one.bookmark()

    (event,) = events(one)
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", form)
    assert event["object"]["metadata"]["resourceVersion"] == str(world.store.revision)


def test_a_table_names_its_columns_once(world: World) -> None:
    secret(world, "a")
    one = watcher(world.store, form="Table")
    secret(world, "b")

    first, second = events(one)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None


def test_contradictory_options_are_refused() -> None:
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "Exact", "resourceVersion": "1"}
    with refused(422):
        check_watch_options(ListRequest.parse(SECRETS, query))


class Lines:
    def __init__(self) -> None:
        self.data = b""

    async def write(self, data: bytes) -> None:
        self.data += data

    @property
    def types(self) -> list[str]:
        return [msgspec.json.decode(line)["type"] for line in self.data.splitlines()]


async def bookmarks(sink: Lines, *, timeout: float, interval: float) -> list[str]:
    world = World()
    one = watcher(world.store, allowWatchBookmarks="true", resourceVersion=str(world.store.revision))
    await serve(one, sink, timeout=timeout, bookmark_interval=interval)
    return sink.types


def test_bookmarks_come_at_their_interval() -> None:
    class GoneAfterThree(Lines):
        async def write(self, data: bytes) -> None:
            await super().write(data)
            if len(self.types) == 3:
                raise ConnectionResetError

    sink = GoneAfterThree()
    with pytest.raises(ConnectionResetError):
        asyncio.run(bookmarks(sink, timeout=300, interval=0.01))
    assert sink.types == ["BOOKMARK"] * 3


def test_a_watch_whose_client_is_gone_leaves_the_store() -> None:
    class Gone:
        async def write(self, data: bytes) -> None:
            raise ConnectionResetError

    async def run() -> Watcher:
        world = World()
        secret(world, "a")
        one = watcher(world.store)
        with pytest.raises(ConnectionResetError):
            await serve(one, Gone(), timeout=10, bookmark_interval=10)
        return one

    assert asyncio.run(run()).closed
