"""The log of a step whose pieces are objects: its last lines, and then what comes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tfoperator.pipeline import ObjectStoreError
from tfoperator.ui.pipelines.object_log import ObjectLogTail
from tfoperator.ui.problems import CannotRead


class Pieces:
    """Objects by name."""

    def __init__(self, **pieces: str) -> None:
        self.pieces = pieces
        self.read: list[str] = []

    def tail(self, lines: int) -> ObjectLogTail:
        return ObjectLogTail(self._keys, self._get, tail_lines=lines, pause=5.0)

    def _keys(self, after: str) -> Iterator[str]:
        return iter(sorted(name for name in self.pieces if name > after))

    def _get(self, key: str) -> bytes:
        self.read.append(key)
        return self.pieces[key].encode()


def said(tail: ObjectLogTail) -> list[str]:
    found: list[str] = []
    while lines := tail.read().lines:
        found += lines
    return found


def test_the_last_lines_come_first_and_then_each_new_line_once() -> None:
    log = Pieces(a="1\n2\n", b="3\n\n", c="5\n")
    tail = log.tail(2)
    assert said(tail) == ["", "5"]
    assert log.read == ["c", "b"], "what is not shown is not read"
    assert said(tail) == []
    log.pieces |= {"d": "6\n", "e": "7\n8\n"}
    assert said(tail) == ["6", "7", "8"]
    assert said(tail) == []


def test_a_log_that_is_not_there_yet_and_one_that_nobody_wants() -> None:
    log = Pieces()
    tail = log.tail(10)
    assert said(tail) == []
    log.pieces["a"] = "1\n"
    assert said(tail) == ["1"]
    tail.close()
    log.pieces["b"] = "2\n"
    assert said(tail) == []
    assert said(Pieces(a="1\n").tail(0)) == []


def test_a_store_that_can_not_be_read_is_said() -> None:
    def refuse(_: str) -> Iterator[str]:
        raise ObjectStoreError("no access")

    with pytest.raises(CannotRead, match="no access"):
        ObjectLogTail(refuse, lambda _: b"", tail_lines=1, pause=5.0).read()
