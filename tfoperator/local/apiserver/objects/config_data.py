"""The rules of kube-apiserver for the data of ConfigMaps and Secrets: encoding, keys, size, types of Secrets. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping

import msgspec

from tfoperator.api.fields.problems import Problem
from tfoperator.api.pods import name_rules
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.apiserver.errors import FieldProblem, invalid_value, required
from tfoperator.local.apiserver.members import Json

_MAX_SIZE = 1 << 20
"""The maximum number of bytes of all values together, in one ConfigMap or Secret."""
_TOO_LARGE = f"Too long: may not be more than {_MAX_SIZE} bytes"
_ENCODED = {"Secret": ("data", "stringData"), "ConfigMap": ("binaryData", "data")}
"""For each kind, the member whose values are base64, and the member for plain text."""
_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
"""The key that must contain a JSON object, by the type of the Secret."""
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def encoding_problems(kind: str, obj: Json) -> Iterator[Problem]:
    """Yield each value that must be base64, and is not. The types must be right."""
    if kind in _ENCODED:
        field, plain = _ENCODED[kind]
        for key, value in (obj.get(field) or {}).items():
            if _decoded(value) is None:
                # The message does not quote the value, which may be a password.
                yield Problem(f"{field}[{key}]", f"must be base64; plain text belongs in {plain}")


def config_map_problems(config_map: Json) -> Iterator[FieldProblem]:
    """Yield the problems of a ConfigMap whose types and encodings are right."""
    texts, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for field, values, other, others in (("data", texts, "binaryData", binary), ("binaryData", binary, "data", texts)):
        yield from _key_problems(field, values)
        for key in values:
            if key in others:
                yield invalid_value(f"{field}[{key}]", key, f"duplicate of key present in {other}")
    if sum(len(text.encode()) for text in texts.values()) + _size(binary) > _MAX_SIZE:
        yield FieldProblem("", "FieldValueTooLong", _TOO_LARGE)


def secret_problems(secret: Json) -> Iterator[FieldProblem]:
    """Yield the problems of a Secret whose types and encodings are right, and whose `stringData` is in its `data`."""
    data = secret.get("data") or {}
    yield from _key_problems("data", data)
    if _size(data) > _MAX_SIZE:
        yield FieldProblem("data", "FieldValueTooLong", _TOO_LARGE)
    kind = secret.get("type")
    match kind:
        case "kubernetes.io/service-account-token":
            if not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
                yield required(f"metadata.annotations[{_ACCOUNT_NAME}]")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            yield from _docker_problems(data, _DOCKER_KEYS[kind])
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                yield required("data[username]")
                yield required("data[password]")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield required("data[ssh-privatekey]")
        case "kubernetes.io/tls":
            yield from (required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data)


def _docker_problems(data: Mapping[str, str], key: str) -> Iterator[FieldProblem]:
    if key not in data:
        yield required(f"data[{key}]")
        return
    try:
        msgspec.json.decode(_decoded(data[key]) or b"", type=dict)
    except UNDECODABLE:
        yield invalid_value(f"data[{key}]", "<secret contents redacted>", "must be a JSON object")


def _key_problems(field: str, values: Mapping[str, str]) -> Iterator[FieldProblem]:
    for key in values:
        if problem := name_rules.config_key(key):
            yield invalid_value(f"{field}[{key}]", key, problem)


def _size(values: Mapping[str, str]) -> int:
    return sum(len(_decoded(value) or b"") for value in values.values())


def _decoded(text: str) -> bytes | None:
    """Return the bytes of a base64 text; None if the text is not base64. As in Go, the text may contain line breaks."""
    try:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):  # ValueError: a character outside of ASCII
        return None
