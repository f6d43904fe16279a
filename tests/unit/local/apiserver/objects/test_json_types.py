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


def test_nulls_are_good_where_nobody_reads_and_else_dropped() -> None:
    check_types(RESOURCES["Pod"], {"spec": {"containers": [{"command": None, "tty": 3}], "hostPID": "no"}})
    pod = {"metadata": {"labels": {"a": "b", "c": None}}, "spec": {"containers": [{"workingDir": None, "args": ["x"]}]}}
    check_types(RESOURCES["Pod"], pod)
    assert pod == {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"args": ["x"]}]}}
