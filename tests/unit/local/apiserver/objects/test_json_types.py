from typing import Any

import pytest

from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.objects.json_types import check_types
from tfoperator.local.apiserver.resource_types import BUILTIN

RESOURCES = {resource.kind: resource for resource in BUILTIN}


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("ConfigMap", {"data": {"steps": 5}}, "data[steps]: must be a string, but is the number 5"),
        (
            "Pod",
            {"spec": {"containers": [{"command": "train.py"}, {"env": [{"name": "A", "value": True}]}]}},
            'spec.containers[0].command: must be a list, but is the string "train.py"; '
            "spec.containers[1].env[0].value: must be a string, but is true",
        ),
    ],
)
def test_wrong_types_are_refused_with_their_fields(kind: str, body: dict[str, Any], words: str) -> None:
    with pytest.raises(StatusError) as caught:
        check_types(RESOURCES[kind], body)
    assert f'{kind} in version "v1" cannot be handled as a {kind}: {words}' in str(caught.value)


def test_every_field_of_a_pod_has_its_type_also_where_nobody_reads_it() -> None:
    probe = {"periodSeconds": "5", "httpGet": {"port": 0.5}}
    for wrong in ({"hostPID": "no"}, {"containers": [{"tty": 3}]}, {"containers": [{"livenessProbe": probe}]}):
        for kind, body in (("Pod", {"spec": wrong}), ("Deployment", {"spec": {"template": {"spec": wrong}}})):
            with pytest.raises(StatusError, match="must be"):
                check_types(RESOURCES[kind], body)


def test_null_items_of_a_pods_lists_and_maps_are_the_zero_values_of_their_types() -> None:
    resources = {"limits": {"cpu": None}}
    pod = {"spec": {"containers": [None, {"args": [None, "x"], "resources": resources}]}}
    check_types(RESOURCES["Pod"], pod)
    assert pod == {"spec": {"containers": [{}, {"args": ["", "x"], "resources": {"limits": {"cpu": "0"}}}]}}


def test_nulls_are_dropped() -> None:
    check_types(RESOURCES["Pod"], {"spec": {"containers": [{"command": None}], "hostPID": None}})
    pod = {"metadata": {"labels": {"a": "b", "c": None}}, "spec": {"containers": [{"workingDir": None, "args": ["x"]}]}}
    check_types(RESOURCES["Pod"], pod)
    assert pod == {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"args": ["x"]}]}}
