from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.loading.reader import parse_manifests
from tfoperator.api.loading.writer import to_yaml

# YAML 1.1 has no surrogate pairs beyond the basic plane in PyYAML's own writer, nor control characters unescaped.
words = (
    st.text(max_size=8)
    | st.text("0123456789eE+-._:xobynYN~<=", max_size=6)
    | st.text(" \n\t#'\"-:|>a\u00e9\u2028\x85", max_size=10)
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(words, children, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(words, values, max_size=3), min_size=1, max_size=2))
def test_what_is_written_is_read_again(objects: list[dict[str, Any]]) -> None:
    text = to_yaml(objects)
    assert [manifest.obj for manifest in parse_manifests(text)] == objects
    assert list(yaml.safe_load_all(text)) == objects


@pytest.mark.parametrize("text", ["1e3", "0o17", "12:30", "yes", "null", "2024-01-31", "=", "<<", "0b1", "1_000"])
def test_text_that_anybody_takes_for_something_else_is_quoted(text: str) -> None:
    assert to_yaml([{"v": text}]) == f"v: '{text}'\n"


def test_shared_parts_are_written_twice_and_programs_line_by_line() -> None:
    shared = {"command": "a\nb\n"}
    assert to_yaml([{"x": shared, "y": shared}]) == "x:\n  command: |\n    a\n    b\ny:\n  command: |\n    a\n    b\n"
