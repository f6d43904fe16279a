import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.nested import nested
from tests.unit.kube.conftest import MakeClient
from tests.unit.kube.server import chunks, lists_and_watches
from tfoperator.kube.http.nesting import LEVELS, cut_off, decode_what_can_be_followed
from tfoperator.kube.protocol.errors import MalformedResponse
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import PartialObject

DECODE = msgspec.json.Decoder(PartialObject).decode

DEEP = b'{"metadata":{"name":"deep"},"spec":' + nested() + b',"kind":"Pod"}'
FLAT = b'{"metadata":{"name":"flat"}}'


def test_one_object_that_is_too_deep_keeps_nobody_from_reading_the_others_but_is_not_read_alone(
    client_for: MakeClient,
) -> None:
    body = b'{"metadata":{"resourceVersion":"7"},"items":[' + DEEP + b"," + FLAT + b"]}"
    line = b'{"type":"ADDED","object":%s}\n'
    client = client_for(lists_and_watches(body, watch=chunks(line % DEEP, line % FLAT)))
    page = client.list(PODS, "ns", DECODE)
    assert ([item.metadata.name for item in page.items], page.resource_version) == (["deep", "flat"], "7")
    seen = [event.object for event in client.watch(PODS, "ns", DECODE)]
    assert [pod.metadata.name for pod in seen if pod is not None] == ["deep", "flat"]
    # A caller that gets one object may write it back.
    client = client_for(lambda exchange: exchange.respond(200, DEEP))
    with pytest.raises(MalformedResponse, match="get pods ns/deep: the answer can't be decoded"):
        client.get(PODS, "ns", "deep", DECODE)


@pytest.mark.parametrize("levels", [1, LEVELS - 2, 5 * LEVELS])
def test_what_can_be_followed_stays_whole(levels: int) -> None:
    data = b'{"a":' + nested(min(levels, 900)) + b"}"
    assert decode_what_can_be_followed(msgspec.json.decode, data) == msgspec.json.decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def pruned(value: Any, levels: int) -> Any:
    """Return the result that `cut_off` promises, by recursion."""
    if isinstance(value, list):
        return [pruned(item, levels - 1) for item in value] if levels else None
    if isinstance(value, dict):
        return {key: pruned(member, levels - 1) for key, member in value.items()} if levels else None
    return value


@given(JSON, st.integers(0, 4), st.sampled_from([None, 1]))
def test_lists_and_objects_below_so_many_others_are_null(value: Any, levels: int, indent: int | None) -> None:
    data = json.dumps(value, indent=indent).encode()
    assert json.loads(cut_off(data, levels)) == pruned(value, levels)


@pytest.mark.parametrize("data", [b"[[[", b"]]]", b'["', b'{"a":[[[[', b"", b'["' + b'\\"' * 500_000])
def test_what_is_no_json_does_not_become_any(data: bytes) -> None:
    for levels in (0, 1, 9):
        assert cut_off(data, levels) == data
