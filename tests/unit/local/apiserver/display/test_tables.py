from datetime import timedelta
from typing import Any

import pytest

from tests.unit.local.apiserver.samples import START, widgets
from tfoperator.local.apiserver.display.jsonpath import compile_path
from tfoperator.local.apiserver.display.tables import table_formats
from tfoperator.local.apiserver.resource_types import BUILTIN, EVENTS, NODES, PODS, SERVICES, ResourceType

OBJECT: dict[str, Any] = {
    "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]},
    "metadata": {"labels": {"a.b/c": "d"}, "items": [1, 2, 3]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".status.conditions[-1:].type", ["B"]),
        (".status.conditions[0].type", ["A"]),
        (".status.conditions[*].type", ["A", "B"]),
        ('.status.conditions[?(@.type=="B")].status', ["False"]),
        (".status.conditions[?(@.type=='none')].status", []),
        (".metadata.labels['a.b/c']", ["d"]),
        (".metadata.items[1:]", [2, 3]),
        (".metadata.items[7]", []),
        (".status.missing.deeper", []),
        (".status.conditions.type", []),
    ],
)
def test_json_paths(path: str, values: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == values


@pytest.mark.parametrize("path", ["status", ".a[", ".a[?(@.b>1)]", "..a"])
def test_a_json_path_that_is_not_understood_is_an_error(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        compile_path(path)


def row(resource: ResourceType, obj: dict[str, Any]) -> dict[str, Any]:
    custom = widgets()
    table = table_formats((*BUILTIN, custom.resource), [custom])[resource]
    body = {"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}, **obj}
    cells = table.row(body, START + timedelta(seconds=90))
    return dict(zip((column["name"] for column in table.definitions()), cells, strict=True))


def container(**state: Any) -> dict[str, Any]:
    return {"status": {"phase": "Running", "containerStatuses": [{"name": "c", "state": state}]}, "spec": {}}


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        ({"spec": {}, "status": {"phase": "Pending"}}, "Pending"),
        ({"spec": {}, "status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
        (container(running={}), "Running"),
        (container(waiting={"reason": "ImagePullBackOff"}), "ImagePullBackOff"),
        (container(terminated={"exitCode": 3}), "ExitCode:3"),
        (container(terminated={"exitCode": 0, "reason": "Completed"}), "Completed"),
        ({"spec": {}, "metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "Terminating"),
    ],
)
def test_the_status_of_a_pod_is_its_most_telling_word(pod: dict[str, Any], status: str) -> None:
    assert row(PODS, pod)["Status"] == status


def test_columns_of_other_kinds() -> None:
    last = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:30Z"}}
    pod = {"spec": {}, "status": {"containerStatuses": [{"name": "c", "restartCount": 2, "lastState": last}]}}
    assert row(PODS, pod)["Restarts"] == "2 (60s ago)"
    service = row(SERVICES, {"spec": {"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 1}]}})
    event = row(EVENTS, {"reason": "R", "type": "Normal", "involvedObject": {"kind": "TFJob", "name": "j"}})
    node = row(NODES, {"spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert (service["Cluster-IP"], service["Port(s)"], service["Age"]) == ("None", "1/TCP", "90s")
    assert (event["Object"], event["Reason"], event["Last Seen"]) == ("tfjob/j", "R", "<unknown>")
    assert node["Status"] == "Ready"
    assert row(widgets().resource, {"spec": {"size": 3}}) == {"Name": "x", "Size": 3, "Age": "90s"}


@pytest.mark.parametrize("resource", BUILTIN, ids=lambda resource: resource.plural)
def test_an_empty_object_of_any_kind_can_be_printed(resource: ResourceType) -> None:
    assert "x" in row(resource, {"spec": {}}).values()
