import base64
from typing import Any

import pytest

from tests.unit.local.apiserver.samples import World, named
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.resource_types import BUILTIN

RESOURCES = {resource.kind: resource for resource in BUILTIN}
TEXT = base64.b64encode(b"text").decode()
MEBIBYTE = 1 << 20


def refusal(world: World, kind: str, **body: Any) -> tuple[int, str, list[tuple[str, str]]]:
    """The code, the message and the causes of the refusal of an object; nothing if the server accepts the object."""
    try:
        world.create(RESOURCES[kind], {**named("a"), **body})
    except StatusError as error:
        causes = (error.details or {}).get("causes", [])
        return error.code, str(error), [(cause["field"], cause["reason"]) for cause in causes]
    return 0, "", []


@pytest.mark.parametrize("value", ["hunter2", "hunter2!", "aGk", "aGk=aGk=", "é"])
@pytest.mark.parametrize(("kind", "field", "plain"), [("Secret", "data", "string"), ("ConfigMap", "binaryData", "")])
def test_what_is_not_base64_is_refused_and_not_quoted(
    world: World, kind: str, field: str, plain: str, value: str
) -> None:
    code, message, _ = refusal(world, kind, **{field: {"ok": TEXT, "password": value}})
    assert code == 400
    assert f"{field}[password]: must be base64; plain text belongs in {plain or 'data'}" in message
    assert value not in message


def test_base64_may_have_line_breaks_and_may_be_empty_or_null(world: World) -> None:
    assert refusal(world, "Secret", data={"a": "aGk\n=\r\n", "b": "", "c": None}) == (0, "", [])


@pytest.mark.parametrize("key", ["../x", "a b", "..", ".", "..a", "a/b", "", "ü", "x" * 254])
def test_keys_must_be_names_of_files(world: World, key: str) -> None:
    for kind, field, value in (
        ("ConfigMap", "data", "x"), ("ConfigMap", "binaryData", TEXT), ("Secret", "data", TEXT)
    ):  # fmt: skip
        code, _, causes = refusal(world, kind, **{field: {key: value}})
        assert (code, causes) == (422, [(f"{field}[{key}]", "FieldValueInvalid")])
    assert refusal(world, "Secret", stringData={key: "x"})[0] == 422


def test_a_config_map_has_each_key_once(world: World) -> None:
    code, _, causes = refusal(world, "ConfigMap", data={"a": "x", "b": "x"}, binaryData={"a": TEXT})
    assert (code, causes) == (422, [("data[a]", "FieldValueInvalid"), ("binaryData[a]", "FieldValueInvalid")])


def test_all_values_together_have_at_most_a_mebibyte(world: World) -> None:
    half, rest = "x" * (MEBIBYTE // 2), "x" * (MEBIBYTE // 2 - 4)
    assert refusal(world, "ConfigMap", data={"a": half, "b": rest + "x"}, binaryData={"c": TEXT})[2] == [
        ("", "FieldValueTooLong")
    ]
    assert refusal(world, "ConfigMap", data={"a": half, "b": rest}, binaryData={"c": TEXT})[0] == 0
    assert refusal(world, "Secret", stringData={"a": half, "b": half + "x"})[2] == [("data", "FieldValueTooLong")]
    assert refusal(world, "Secret", stringData={"a": half, "b": half})[0] == 0


@pytest.mark.parametrize(
    ("kind", "data", "fields"),
    [
        ("kubernetes.io/tls", {}, ["data[tls.crt]", "data[tls.key]"]),
        ("kubernetes.io/tls", {"tls.crt": "", "tls.key": ""}, []),
        ("kubernetes.io/basic-auth", {}, ["data[username]", "data[password]"]),
        ("kubernetes.io/basic-auth", {"password": ""}, []),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]"]),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": TEXT}, []),
        ("kubernetes.io/dockercfg", {}, ["data[.dockercfg]"]),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": TEXT}, ["data[.dockerconfigjson]"]),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": base64.b64encode(b"{}").decode()}, []),
        ("kubernetes.io/service-account-token", {}, ["metadata.annotations[kubernetes.io/service-account.name]"]),
        ("example.com/any", {}, []),
    ],
)
def test_the_type_of_a_secret_decides_which_keys_it_needs(
    world: World, kind: str, data: dict[str, str], fields: list[str]
) -> None:
    assert [field for field, _ in refusal(world, "Secret", type=kind, data=data)[2]] == fields
