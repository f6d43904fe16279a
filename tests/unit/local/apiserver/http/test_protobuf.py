import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfoperator.local.apiserver.http.protobuf import ProtobufError, decode


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(kind: str, raw: bytes, api_version: str = "v1") -> bytes:
    type_meta = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, type_meta) + field(2, raw) + field(3, "") + field(4, "")


SAMPLES = [json.loads(line) for line in Path(__file__).with_name("protobuf_samples.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample["json"]["kind"]))
def test_every_field_of_every_kind_reads_as_the_go_library_says(sample: dict[str, Any]) -> None:
    assert decode(base64.b64decode(sample["protobuf"])) == sample["json"]


def test_an_empty_value_counts_where_json_would_have_it_and_an_unknown_field_does_not() -> None:
    container = field(1, "c") + field(2, "") + field(18, 0) + field(99, "future")
    pod = field(1, field(1, "v") + field(2, field(2, b"")))  # a volume that is an emptyDir
    spec = field(1, 0) + field(3, field(2, pod + field(2, container) + field(4, 0))) + field(5, 0)
    read = {"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "c"}]}
    decoded = decode(envelope("Deployment", field(2, spec), "apps/v1"))["spec"]
    assert decoded == {"replicas": 0, "template": {"spec": {**read, "terminationGracePeriodSeconds": 0}}}


@pytest.mark.parametrize(
    "body", [b"", b"{}", envelope("Job", b""), envelope("Pod", b"", "v9"), envelope("Secret", b"\x0a\x09cut")]
)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(body)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_can_break_it(raw: bytes) -> None:
    for body in (b"k8s\x00" + raw, envelope("Event", raw)):
        with suppress(ProtobufError):
            assert isinstance(decode(body), dict)
