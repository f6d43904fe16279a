import json
from contextlib import ExitStack
from typing import Any

import pytest

from tests.contract.support import (
    CONFIG_MAPS,
    PODS,
    TFJOBS,
    Json,
    Space,
    changes,
    config_map,
    decode,
    happenings,
    is_bookmark,
    pod,
    refused,
    revision,
    seen,
    tfjob,
)
from tests.support.eventually import eventually
from tfoperator.kube import WatchOptions
from tfoperator.kube.protocol.errors import ApiError, InvalidError
from tfoperator.kube.protocol.resources import SECRETS

WATCH_LIST: dict[str, Any] = {"send_initial_events": True, "resource_version_match": "NotOlderThan"}


def secret(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def test_a_watch_from_a_version_tells_everything_since_a_deletion_with_its_own_version(space: Space) -> None:
    start = space.create(SECRETS, secret("before"))["metadata"]["resourceVersion"]
    made = space.create(SECRETS, secret("a"))["metadata"]
    with space.watch(SECRETS, resource_version=start) as events:
        space.patch(SECRETS, "a", {"metadata": {"labels": {"x": "y"}}})
        space.delete(SECRETS, "a")
        changes_of_a = happenings(events, 3)
    assert [*map(seen, changes_of_a)] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert changes_of_a[2].object is not None
    assert changes_of_a[2].object["metadata"]["uid"] == made["uid"]
    assert revision(changes_of_a[2]) > revision(changes_of_a[1]) > int(made["resourceVersion"])


def test_a_watch_without_a_version_begins_with_what_is_there(space: Space) -> None:
    space.create(SECRETS, secret("a"))
    for version in ("", "0"):
        with space.watch(SECRETS, resource_version=version) as events:
            assert changes(events, 1) == [("ADDED", "a")]


def test_a_watch_resumes_from_any_event_without_gap_or_repetition(space: Space) -> None:
    start = space.client.list(SECRETS, space.namespace, bytes).resource_version
    for index in range(5):
        space.create(SECRETS, secret(f"s{index}"))
    with space.watch(SECRETS, resource_version=start) as events:
        first = happenings(events, 2)
    with space.watch(SECRETS, resource_version=str(revision(first[-1]))) as events:
        rest = changes(events, 3)

    assert [*map(seen, first), *rest] == [("ADDED", f"s{index}") for index in range(5)]


def test_an_object_enters_and_leaves_a_selection(space: Space) -> None:
    start = space.create(SECRETS, secret("a"))["metadata"]["resourceVersion"]
    with space.watch(SECRETS, resource_version=start, label_selector="on") as events:
        space.patch(SECRETS, "a", {"metadata": {"labels": {"other": "1"}}})
        space.patch(SECRETS, "a", {"metadata": {"labels": {"on": "1"}}})
        space.patch(SECRETS, "a", {"metadata": {"labels": {"on": "2"}}})
        left = space.patch(SECRETS, "a", {"metadata": {"labels": {"on": None}}})
        space.delete(SECRETS, "a")
        space.create(SECRETS, secret("b", on="1"))
        changes_of_both = happenings(events, 4)

    assert [*map(seen, changes_of_both)] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    gone = changes_of_both[2]
    assert gone.object is not None
    assert gone.object["metadata"]["labels"]["on"] == "2", "the object is shown as it was in the selection"
    assert revision(gone) == int(left["metadata"]["resourceVersion"])


def test_a_field_selector_selects_by_transition_too(space: Space) -> None:
    start = space.create(PODS, pod("a", nodeName="n"))["metadata"]["resourceVersion"]
    with space.watch(PODS, resource_version=start, field_selector="status.phase=Running") as events:
        for phase in ("Running", "Succeeded"):
            space.set_status(PODS, "a", {"phase": phase})
        assert changes(events, 2) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_watch_of_one_object_or_one_namespace_tells_of_no_other(space: Space) -> None:
    start = space.create(CONFIG_MAPS, config_map("a"))["metadata"]["resourceVersion"]
    elsewhere = f"name-of-{space.namespace}"
    watch_of_a = space.watch(CONFIG_MAPS, resource_version=start, field_selector="metadata.name=a")
    with watch_of_a as events, space.watch(CONFIG_MAPS, resource_version=start) as all_events:
        space.client.create(CONFIG_MAPS, "default", config_map(elsewhere), bytes)
        space.client.delete(CONFIG_MAPS, "default", elsewhere)
        space.create(CONFIG_MAPS, config_map("b"))
        space.delete(CONFIG_MAPS, "a")
        assert changes(events, 1) == [("DELETED", "a")]
        assert changes(all_events, 2) == [("ADDED", "b"), ("DELETED", "a")]


def _namespace(body: Json) -> str:
    return str(body["metadata"]["namespace"])


def test_a_watch_over_all_namespaces(space: Space) -> None:
    start = space.create(TFJOBS, tfjob("a"))["metadata"]["resourceVersion"]
    stream = space.client.watch(TFJOBS, "", decode, WatchOptions(resource_version=start, timeout_seconds=100))
    try:
        space.create(TFJOBS, tfjob("b"))
        mine = (event for event in stream if event.object is not None and _namespace(event.object) == space.namespace)
        assert changes(mine, 1) == [("ADDED", "b")]
    finally:
        stream.close()


def test_a_watch_ends_cleanly_when_its_time_is_over_with_a_bookmark_before(space: Space) -> None:
    start = space.create(TFJOBS, tfjob("a"))["metadata"]["resourceVersion"]
    for attempt in range(20):  # API servers promise to try
        with space.watch(TFJOBS, resource_version=start, timeout_seconds=4) as events:
            space.create(SECRETS, secret(f"unrelated-{attempt}"))
            if received := list(events):
                break

    assert received, "a bookmark comes before the end"
    assert all(is_bookmark(event) for event in received)
    assert int(received[-1].resource_version) >= int(start)
    assert not any(event.initial_events_end for event in received)


def test_a_client_that_does_not_ask_gets_no_bookmarks(space: Space) -> None:
    start = space.create(TFJOBS, tfjob("a"))["metadata"]["resourceVersion"]
    with space.watch(TFJOBS, resource_version=start, timeout_seconds=3, allow_watch_bookmarks=False) as events:
        assert list(events) == []


def test_a_watch_list_sends_what_is_there_and_says_when_it_is_complete(space: Space) -> None:
    for name in ("a", "b", "c"):
        space.create(SECRETS, secret(name, **({"on": "1"} if name != "b" else {})))
    with space.watch(SECRETS, label_selector="on", **WATCH_LIST) as events:
        initial = [next(events) for _ in range(3)]
        space.create(SECRETS, secret("d", on="1"))
        after = changes(events, 1)

    assert sorted(seen(event) for event in initial[:2]) == [("ADDED", "a"), ("ADDED", "c")]
    assert initial[2].initial_events_end
    assert int(initial[2].resource_version) >= max(revision(event) for event in initial[:2])
    assert after == [("ADDED", "d")]


def test_a_watch_list_of_nothing_is_complete_at_once_and_resumes_like_any_watch(space: Space) -> None:
    with space.watch(TFJOBS, **WATCH_LIST) as events:
        end = next(events)
    assert end.initial_events_end
    version = space.create(TFJOBS, tfjob("a"))["metadata"]["resourceVersion"]
    with space.watch(TFJOBS, resource_version=end.resource_version) as events:
        assert changes(events, 1) == [("ADDED", "a")]
    with space.watch(TFJOBS, resource_version=version, **WATCH_LIST) as events:  # not older than that
        assert seen(next(events)) == ("ADDED", "a")
        end = next(events)
    assert end.initial_events_end
    assert int(end.resource_version) >= int(version)


def test_initial_events_need_a_match_and_a_version_is_a_number(space: Space) -> None:
    for options in ({"send_initial_events": True}, {"resource_version_match": "NotOlderThan"}):
        with refused(InvalidError, "resourceVersionMatch"), space.watch(TFJOBS, **options):
            pass
    with refused(ApiError), space.watch(TFJOBS, resource_version="abc") as events:
        next(events)  # a server may send the error in the stream


@pytest.mark.parametrize("form", ["PartialObjectMetadata", "Table"])
def test_a_watch_has_the_form_that_was_asked_for(space: Space, form: str) -> None:
    space.create(TFJOBS, tfjob("a"))
    path = f"{space.path(TFJOBS)}?watch=true&timeoutSeconds=1"

    def first() -> Json:
        """Return the first event of a watch, unless its time is over before."""
        lines = space.http("GET", path, accept=f"application/json;as={form};g=meta.k8s.io;v=v1").body.splitlines()
        return dict(json.loads(lines[0])) if lines else {}

    event = eventually(first, what="a watch that begins in its time")
    assert (event["type"], event["object"]["kind"]) == ("ADDED", form)


def test_many_watches_see_the_same_order_and_a_closed_one_does_not_disturb_them(space: Space) -> None:
    start = space.client.list(SECRETS, space.namespace, bytes).resource_version
    with ExitStack() as stack:
        streams = [stack.enter_context(space.watch(SECRETS, resource_version=start)) for _ in range(5)]
        with space.watch(SECRETS, resource_version=start):
            pass
        for index in range(10):
            space.create(SECRETS, secret(f"s{index}"))
        orders = [[revision(event) for event in happenings(stream, 10)] for stream in streams]
    assert all(order == orders[0] for order in orders)
    assert orders[0] == sorted(orders[0])
