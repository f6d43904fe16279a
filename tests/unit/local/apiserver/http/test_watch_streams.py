from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.unit.local.apiserver.samples import World, named, refused
from tfoperator.local.apiserver.display.representation import RequestedForm, representation
from tfoperator.local.apiserver.display.tables import table_formats
from tfoperator.local.apiserver.http.watch_streams import Watcher
from tfoperator.local.apiserver.resource_types import BUILTIN, SECRETS
from tfoperator.local.apiserver.storage.listing import ListRequest
from tfoperator.local.apiserver.storage.store import Store

TABLE = table_formats(BUILTIN, [])[SECRETS]


def watcher(store: Store, *, form: str = "", backlog_limit: int = 1000, **query: str) -> Watcher:
    options = ListRequest.parse(SECRETS, query)
    encoder = representation(RequestedForm(form), SECRETS, TABLE, FakeClock())
    return Watcher(store, SECRETS, "", options, encoder, backlog_limit=backlog_limit)


def events(stream: Watcher) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in stream.take().splitlines()]


def secret(world: World, name: str, **labels: str) -> None:
    world.create(SECRETS, named(name, **labels))


def test_a_version_from_another_servers_future_has_expired_and_a_table_names_its_columns_once(world: World) -> None:
    future = str(world.store.revision + 1)
    (event,) = events(watcher(world.store, resourceVersion=future))
    assert event["object"]["code"] == 410
    with refused(504):
        watcher(world.store, resourceVersion=future, sendInitialEvents="true")
    secret(world, "a")
    stream = watcher(world.store, form="Table")
    secret(world, "b")
    first, second = events(stream)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None


def test_the_end_of_initial_events_is_told_only_to_those_who_take_bookmarks_and_without_them_a_watch_begins_now(
    world: World,
) -> None:
    (end,) = events(watcher(world.store, sendInitialEvents="true", allowWatchBookmarks="true"))
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert events(watcher(world.store, sendInitialEvents="true")) == []
    secret(world, "before")
    stream = watcher(world.store, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    secret(world, "after")
    assert [event["object"]["metadata"]["name"] for event in events(stream)] == ["after"]


def test_a_client_that_does_not_read_is_cut_off_and_a_closed_watch_observes_nothing_more(world: World) -> None:
    idle, closed = (watcher(world.store, backlog_limit=3, resourceVersion=str(world.store.revision)) for _ in "ab")
    closed.close()
    for name in "abcdef":
        secret(world, name)
    assert idle.closed
    assert len(events(idle)) == 4
    closed.bookmark()
    assert events(closed) == []


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadata"])
def test_bookmarks_have_the_form_of_the_watch(form: str, world: World) -> None:
    stream = watcher(world.store, form=form, allowWatchBookmarks="true", resourceVersion=str(world.store.revision))
    stream.bookmark()
    (event,) = events(stream)
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", form)
    assert event["object"]["metadata"]["resourceVersion"] == str(world.store.revision)
