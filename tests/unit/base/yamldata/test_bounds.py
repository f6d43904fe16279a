"""A text of YAML is bounded by its size, its depth, and by the size to which its aliases expand it."""

import tracemalloc
from typing import Any

import pytest

from tfoperator.base.yamldata.reader import MAX_BYTES, YamlBoundsError, YamlError, read_documents, read_value


def multiplied(levels: int, use: str = "[{}]") -> str:
    """Return anchors, each holding ten times the anchor before: 10 ** levels times 60 bytes."""
    lines = [f"l0: &l0 [{'x' * 60}]"]
    lines += [f"l{i}: &l{i} {use.format(', '.join([f'*l{i - 1}'] * 10))}" for i in range(1, levels + 1)]
    return "\n".join(lines)


BOMBS = {
    "values": multiplied(9),
    "bytes of a scalar": f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 200)}]\n",
    "bytes of a key": f"? &a {'k' * 100_000}\n: 1\nb: [{', '.join(['*a'] * 200)}]\n",
    "bytes of keys": f"a: &a\n  ? {'k' * 100_000}\n  : 1\nb: [{', '.join(['*a'] * 200)}]\n",
    "bytes beyond ASCII": f"a: &a {'é' * 50_000}\nb: [{', '.join(['*a'] * 200)}]\n",
    "merge keys": f"a: &a {{k: {'x' * 100_000}}}\nb:\n" + "- <<: *a\n" * 200,
    "levels": "l0: &l0 [x]\n" + "".join(f"l{i}: &l{i} [*l{i - 1}]\n" for i in range(1, 1200)),
    "levels by merging": "l0: &l0 {x: y}\n"
    + "".join(f"l{i}: &l{i} {{<<: {{x: *l{i - 1}}}}}\n" for i in range(1, 1200)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_text_that_means_a_lot_is_refused_early(bomb: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(YamlBoundsError, match=r"expand to more than|has more than 100 levels of nesting"):
            read_value(BOMBS[bomb], "f")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * 2**20, f"{peak >> 20} MiB"


def test_a_text_without_aliases_is_bounded_by_its_own_size_alone_and_a_bound_names_the_place() -> None:
    text = f"a: {'x' * (MAX_BYTES - 10)}\n"
    assert len(read_value(text, "f")["a"]) == MAX_BYTES - 10
    with pytest.raises(YamlBoundsError, match=r"f: is larger than 10 MiB"):
        read_value(text + "#" * 20, "f")
    with pytest.raises(YamlBoundsError, match=r"^f:3:4: has aliases that expand to more than 1 MiB$"):
        read_value(f"a: &a {'x' * 600_000}\nb: 1\nc: *a\n", "f", max_bytes=2**20)


def test_levels_of_an_anchor_count_from_where_it_is_used() -> None:
    def nested(inner: Any, levels: int) -> Any:
        return nested([inner], levels - 1) if levels else inner

    half = "a: &a " + "[" * 50 + "]" * 50 + "\n"
    deep = read_value(half + "b: " + "[" * 49 + "*a" + "]" * 49, "f")
    assert deep["b"] == nested([], 98)
    with pytest.raises(YamlBoundsError, match="more than 100 levels of nesting"):
        read_value(half + "b: " + "[" * 51 + "*a" + "]" * 51, "f")


def test_anchors_end_with_their_document_and_bounds_hold_for_all_of_them() -> None:
    document = f"a: &a {'x' * 300_000}\nb: *a\n"
    assert len(list(read_documents(document, "f", max_bytes=2**20))) == 1
    with pytest.raises(YamlBoundsError, match=r"^f:5:4: has aliases that expand to more than 1 MiB"):
        list(read_documents(f"{document}---\n{document}", "f", max_bytes=2**20))
    with pytest.raises(YamlError, match="has no complete value with the anchor"):
        list(read_documents("a: &a x\n---\nb: *a\n", "f"))


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "9" * 400, "9" * 5000, "0" + "7" * 9000, "0b" + "1" * 9000])
def test_a_number_that_nobody_can_hold_is_refused(number: str) -> None:
    with pytest.raises(YamlError, match="can't be a value of type int in JSON"):
        read_value(f"a: -{number}", "f")


def test_of_two_equal_keys_the_last_counts_for_lenient_readers_only() -> None:
    assert read_value("a: 1\na: 2\n", "f", unique_keys=False) == {"a": 2}
    with pytest.raises(YamlError, match="f:2:1: key 'a' is here a second time"):
        read_value("a: 1\na: 2\n", "f")


def test_one_value_is_one_document() -> None:
    assert read_value("# nothing\n", "f") is None
    assert read_value("---\n---\na: 1\n", "f") == {"a": 1}
    with pytest.raises(YamlError, match=r"f:3:1: a second document starts here"):
        read_value("a: 1\n---\nb: 1\n", "f")
