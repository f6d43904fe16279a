import copy
from typing import Any

import pytest

from tfoperator.local.apiserver.objects.builtin_fields import drop_unknown_fields, read_schemas

CONTAINER = {"name": "a", "resources": {"limits": {"cpu": "1", "vendor.io/gpu": 1}}, "env": [{"name": "A"}]}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"any": "label"}, "managedFields": [{"fieldsV1": {"f:any": {}}}]},
    "spec": {"containers": [CONTAINER], "nodeSelector": {"any": "label"}},
    "status": {"containerStatuses": [{"state": {"running": {"startedAt": "2026-01-31T12:00:00Z"}}}]},
}


def test_known_fields_and_free_names_stay() -> None:
    pod = copy.deepcopy(POD)
    assert drop_unknown_fields("Pod", pod) == []
    assert pod == POD


def test_unknown_fields_are_dropped_at_every_depth() -> None:
    pod: dict[str, Any] = copy.deepcopy(POD)
    pod["metdata"] = {}
    pod["metadata"]["lables"] = {}
    pod["spec"]["containers"][0]["resouces"] = {}
    pod["spec"]["containers"][0]["env"][0]["valu"] = "1"
    pod["status"]["containerStatuses"][0]["state"]["runing"] = None
    assert set(drop_unknown_fields("Pod", pod)) == {
        "metdata",
        "metadata.lables",
        "spec.containers[0].resouces",
        "spec.containers[0].env[0].valu",
        "status.containerStatuses[0].state.runing",
    }
    assert pod == POD


def test_a_value_of_another_form_is_left_to_the_check_of_types() -> None:
    body = {"spec": ["no object"], "status": "text", "metadata": None}
    assert drop_unknown_fields("Pod", body) == []


def test_kinds_that_the_file_does_not_describe_keep_everything() -> None:
    assert drop_unknown_fields("TFJob", {"any": 1}) == []
    assert drop_unknown_fields("CustomResourceDefinition", {"any": 1}) == []


@pytest.mark.parametrize("name", [name for name in read_schemas() if ".apiextensions." not in name])
def test_a_map_with_free_names_has_no_values_with_fields(name: str) -> None:
    """The removal does not look into maps. If a new release has such a map, this test names its type."""
    schemas = read_schemas()
    for field, member in schemas[name].get("properties", {}).items():
        items = member.get("additionalProperties", {})
        reference = items.get("$ref", "").rpartition("/")[2]
        assert "properties" not in schemas.get(reference, {}), field
