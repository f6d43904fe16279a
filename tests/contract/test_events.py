"""Events in both of their API groups: the core group and events.k8s.io, which newer clients read and write."""

from typing import Any

import pytest

from tests.contract.support import PODS, Json, Space, happenings, pod, refused, seen
from tfoperator.kube.protocol.errors import InvalidError
from tfoperator.kube.protocol.resources import EVENTS, Resource

NEWER = Resource("events.k8s.io", "v1", "Event", "events")
WHEN = "2026-01-01T12:00:00.123456Z"


def older(space: Space, name: str, **fields: Any) -> Json:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": space.namespace}
    body = {"involvedObject": about, "reason": "Started", "message": "it runs", "type": "Normal", "count": 2}
    times = {"firstTimestamp": "2026-01-01T12:00:00Z", "lastTimestamp": "2026-01-01T12:00:05Z"}
    return {"metadata": {"name": name}, **body, **times, "source": {"component": "kubelet", "host": "n"}, **fields}


def newer(space: Space, name: str, **fields: Any) -> Json:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": space.namespace}
    body = {"regarding": about, "reason": "Started", "note": "it runs", "type": "Normal", "action": "Start"}
    reporter = {"reportingController": "example.com/c", "reportingInstance": "c-0"}
    return {"metadata": {"name": name}, "eventTime": WHEN, **body, **reporter, **fields}


def test_an_event_of_the_core_group_has_other_names_in_the_newer_group(space: Space) -> None:
    made = space.create(EVENTS, older(space, "e"))
    event = space.get(NEWER, "e")
    assert event["apiVersion"] == "events.k8s.io/v1"
    assert event["metadata"]["uid"] == made["metadata"]["uid"]
    assert (event["regarding"], event["note"]) == (made["involvedObject"], "it runs")
    assert event["deprecatedSource"] == {"component": "kubelet", "host": "n"}
    assert (event["deprecatedCount"], event["deprecatedLastTimestamp"]) == (2, "2026-01-01T12:00:05Z")
    assert event["reason"] == "Started"
    assert not {"involvedObject", "message", "source", "count", "firstTimestamp", "lastTimestamp"} & set(event)


def test_an_event_of_the_newer_group_is_read_and_selected_and_watched_in_both(space: Space) -> None:
    start = space.page(EVENTS).resource_version
    space.create(NEWER, newer(space, "e", series={"count": 2, "lastObservedTime": WHEN}))
    event = space.get(EVENTS, "e")
    assert (event["involvedObject"]["name"], event["message"], event["eventTime"]) == ("p", "it runs", WHEN)
    assert (event["reportingComponent"], event["reportingInstance"]) == ("example.com/c", "c-0")
    assert event["series"] == {"count": 2, "lastObservedTime": WHEN}
    for resource, fields in (
        (NEWER, "regarding.kind=Pod,regarding.name=p,reportingController=example.com/c,type=Normal,reason=Started"),
        (EVENTS, "involvedObject.kind=Pod,reportingComponent=example.com/c"),
    ):
        assert space.names(resource, field_selector=fields) == ["e"]
        with space.watch(resource, resource_version=start) as events:
            assert [*map(seen, happenings(events, 1))] == [("ADDED", "e")]
    later = {"count": 3, "lastObservedTime": "2026-01-01T12:01:00.000000Z"}
    assert space.strategic(NEWER, "e", {"series": later})["series"] == later
    assert space.get(EVENTS, "e")["series"] == later
    space.delete(NEWER, "e")
    assert not space.exists(EVENTS, "e")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"type": "Strange"}, "type"),
        ({"action": ""}, "action"),
        ({"reason": ""}, "reason"),
        ({"reportingController": ""}, "reportingController"),
        ({"reportingInstance": ""}, "reportingInstance"),
        ({"series": {"count": 1, "lastObservedTime": WHEN}}, "series.count"),
        ({"deprecatedCount": 1}, "count"),
        ({"deprecatedSource": {"component": "x"}}, "source"),
        ({"deprecatedFirstTimestamp": "2026-01-01T12:00:00Z"}, "firstTimestamp"),
        ({"note": "x" * 1025}, "message"),
        ({"regarding": {"kind": "Pod"}}, "involvedObject.namespace"),
    ],
)
def test_the_newer_group_has_stricter_rules(space: Space, fields: Json, wrong: str) -> None:
    with refused(InvalidError, wrong):
        space.create(NEWER, newer(space, "e", **fields))


def test_only_the_series_of_an_event_may_change_in_the_newer_group(space: Space) -> None:
    space.create(NEWER, newer(space, "e"))
    for change in ({"note": "other"}, {"reason": "Other"}, {"action": "Other"}, {"reportingInstance": "c-1"}):
        with refused(InvalidError, "immutable"):
            space.strategic(NEWER, "e", change)
    assert space.strategic(EVENTS, "e", {"message": "other"})["message"] == "other"


def test_the_events_of_a_pod_are_printed_alike(space: Space) -> None:
    space.create(PODS, pod("p"))
    space.create(EVENTS, older(space, "e"))
    space.create(NEWER, newer(space, "f"))
    tables = [
        space.http("GET", space.path(resource), accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
        for resource in (EVENTS, NEWER)
    ]
    rows = [[[cell for cell in row["cells"] if "ago" not in str(cell)] for row in table["rows"]] for table in tables]
    names = [[column["name"] for column in table["columnDefinitions"]] for table in tables]
    assert names[0] == names[1]
    assert [row[1:] for row in rows[0]] == [row[1:] for row in rows[1]]
    assert rows[0][0][1:4] == ["Normal", "Started", "pod/p"]
