from __future__ import annotations

import contextlib
import http.client
import itertools
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.kube.errors import MalformedResponse
from tfoperator.kube.http.answer import MAX_HEAD_BYTES, Answer, Chunks

T = TypeVar("T")


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[start:end] for start, end in itertools.pairwise(edges) if end > start)


def chunked(parts: list[bytes], trailer: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"


def fed(data: Iterable[bytes]) -> tuple[bytes, bool]:
    """The body that the pieces give, and whether it has ended."""
    chunks = Chunks()
    return b"".join([chunks.feed(piece) for piece in data]), chunks.ended


@contextmanager
def answer_to(data: bytes, *, ends: bool = True) -> Iterator[Answer]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(5)
        theirs.sendall(data)
        if ends:
            theirs.shutdown(socket.SHUT_WR)
        yield Answer(ours)


@given(
    parts=st.lists(st.binary(min_size=1, max_size=50), max_size=8),
    cuts=st.lists(st.integers(0, 1000), max_size=20),
    trailer=st.sampled_from([b"", b"X-Checksum: 1\r\n", b"A: b\r\nC: d\r\n"]),
)
def test_chunks_give_the_body_wherever_the_network_has_cut_them(
    parts: list[bytes], cuts: list[int], trailer: bytes
) -> None:
    chunks = Chunks()
    body = b"".join([chunks.feed(piece) for piece in pieces(chunked(parts, trailer), cuts)])
    assert body == b"".join(parts)
    assert chunks.ended
    assert not chunks.surplus


@given(parts=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8), lost=st.integers(1, 1000))
def test_chunks_that_were_cut_short_have_not_ended(parts: list[bytes], lost: int) -> None:
    whole = chunked(parts)
    chunks = Chunks()
    assert b"".join(parts).startswith(chunks.feed(whole[: -min(lost, len(whole))]))
    assert not chunks.ended


def test_extensions_and_capital_letters_of_a_chunk_are_understood() -> None:
    assert Chunks().feed(b"A;name=value\r\n0123456789\r\n") == b"0123456789"
    assert Chunks().feed(b" a \r\n0123456789\r\n") == b"0123456789"


def test_what_follows_the_last_chunk_is_surplus() -> None:
    chunks = Chunks()
    assert chunks.feed(chunked([b"ab"]) + b"HTTP/1.1") == b"ab"
    assert chunks.surplus


@pytest.mark.parametrize(
    "nonsense",
    [
        b"zz\r\nab\r\n",
        b"-5\r\nab\r\n",
        b"0x5\r\nab\r\n",
        b"\r\nab\r\n",
        b"1_0\r\nab\r\n",
        b"1" * 17 + b"\r\n",
        b"2\r\nabcd\r\n",
        b"2\r\nab\n\r",
        b"2\r\nab\r\r",
        b"z;2\r\nab\r\n",
        b";2\r\nab\r\n",
    ],
)
def test_chunks_that_make_no_sense_are_refused_however_they_are_cut(nonsense: bytes) -> None:
    for size in range(1, len(nonsense) + 1):
        with pytest.raises((ValueError, http.client.HTTPException)):
            fed(pieces(nonsense, [*range(0, len(nonsense), size)]))


@given(
    parts=st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=4),
    place=st.integers(0, 1000),
    byte=st.integers(0, 255),
    cuts=st.lists(st.integers(0, 1000), max_size=20),
)
def test_bytes_that_are_wrong_are_found_wrong_wherever_the_network_has_cut_them(
    parts: list[bytes], place: int, byte: int, cuts: list[int]
) -> None:
    data = bytearray(chunked(parts))
    data[place % len(data)] = byte

    def result(of: Iterator[bytes]) -> tuple[bytes, bool] | None:
        try:
            return fed(of)
        except (ValueError, http.client.HTTPException):
            return None

    assert result(pieces(bytes(data), cuts)) == result(iter([bytes(data)]))


def test_a_line_of_a_chunk_is_not_awaited_for_ever() -> None:
    with pytest.raises(http.client.LineTooLong):
        Chunks().feed(b"1" * 10_000)


def test_an_answer_with_a_length_leaves_the_connection_usable() -> None:
    with answer_to(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nX-A:  b \r\nX-A: c\r\n\r\n{}", ends=False) as answer:
        answer.begin()
        assert answer.status == 201
        assert answer.headers == {"content-length": "2", "x-a": "b, c"}
        assert answer.read_all(10) == b"{}"
        assert answer.read() == b""
        assert not answer.will_close


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["it says so", "it speaks 1.0", "the body has no length"],
)
def test_a_connection_is_not_used_again_if(head: bytes) -> None:
    with answer_to(head + b"{}") as answer:
        answer.begin()
        assert answer.read_all(10) == b"{}"
        assert answer.will_close


@pytest.mark.parametrize(
    "body", [b"Content-Length: 2\r\n\r\n{}HTTP", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP"]
)
def test_bytes_that_nobody_asked_for_spoil_the_connection(body: bytes) -> None:
    with answer_to(b"HTTP/1.1 200 OK\r\n" + body, ends=False) as answer:
        answer.begin()
        assert answer.read_all(10) in (b"{}", b"")
        assert answer.will_close


def test_chunks_win_over_a_length() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nTransfer-Encoding: Chunked\r\n\r\n"
    with answer_to(head + chunked([b"ab", b"c"]), ends=False) as answer:
        answer.begin()
        assert answer.read_all(10) == b"abc"


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_never_have_a_body(status: int) -> None:
    with answer_to(b"HTTP/1.1 %d Whatever\r\n\r\n" % status, ends=False) as answer:
        answer.begin()
        assert answer.read_all(10) == b""
        assert not answer.will_close


def test_interim_answers_are_skipped() -> None:
    with answer_to(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 Gone\r\n\r\n"
    ) as answer:
        answer.begin()
        assert (answer.status, answer.headers) == (204, {})


@given(cuts=st.lists(st.integers(0, 1000), max_size=10))
def test_a_head_may_come_in_pieces(cuts: list[int]) -> None:
    whole = b"HTTP/1.1 200 OK\r\nFolded: a\r\n  b\r\nContent-Length: 3\r\n\r\nabc"

    class Sock:
        left = pieces(whole, cuts)

        def recv(self, _: int) -> bytes:
            return next(self.left, b"")

    answer = Answer(Sock())  # type: ignore[arg-type]
    answer.begin()
    assert answer.headers["folded"] == "a b"
    assert answer.read_all(3) == b"abc"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", http.client.RemoteDisconnected),
        (b"HTTP/1.1 200 OK\r\nContent-", http.client.IncompleteRead),
        (b"SSH-2.0", http.client.BadStatusLine),
        (b"HTTP/2 200\r\n\r\n", http.client.BadStatusLine),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", http.client.BadStatusLine),
        (b"HTTP/1.1\r\n\r\n", http.client.BadStatusLine),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ValueError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\n", ValueError),
    ],
)
def test_a_head_that_makes_no_sense_is_refused(data: bytes, error: type[Exception]) -> None:
    with answer_to(data) as answer, pytest.raises(error):
        answer.begin()


def test_a_head_is_not_read_for_ever() -> None:
    class Sock:
        def recv(self, size: int) -> bytes:
            return b"HTTP/1.1 200 OK\r\n" + b"x" * (size - 17)

    with pytest.raises(http.client.LineTooLong):
        Answer(Sock()).begin()
    assert MAX_HEAD_BYTES < 1 << 20


@pytest.mark.parametrize(
    "body", [b"Content-Length: 5\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"], ids=["length", "chunks"]
)
def test_a_body_that_ends_too_early_is_an_error(body: bytes) -> None:
    with answer_to(b"HTTP/1.1 200 OK\r\n" + body) as answer:
        answer.begin()
        with pytest.raises(http.client.IncompleteRead):
            answer.read_all(100)


def test_a_long_body_is_refused_before_it_is_read_if_it_says_how_long_it_is() -> None:
    with answer_to(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", ends=False) as answer:
        answer.begin()
        with pytest.raises(MalformedResponse, match="larger than 10 bytes"):
            answer.read_all(10)


_HEADS = (b"HTTP/1.1 201 Created\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 409 Conflict\r\nA: b\r\n")


@given(head=st.sampled_from(_HEADS), parts=st.lists(st.binary(min_size=1, max_size=30), max_size=4), data=st.data())
def test_an_interrupted_answer_goes_on_where_it_was(head: bytes, parts: list[bytes], data: st.DataObject) -> None:
    body = b"".join(parts)
    by_length = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    in_chunks = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(parts)
    until_the_end = head + b"\r\n" + body
    whole = data.draw(st.sampled_from((by_length, in_chunks, until_the_end)))
    with answer_to(whole) as plain:
        plain.begin()
        assert plain.read_all(1000) == body
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=6))
    answer = Answer(Reluctant(list(pieces(whole, cuts)), ends=whole is until_the_end))
    until_done(answer.begin)
    assert until_done(lambda: answer.read_all(1000)) == body
    assert (answer.status, answer.headers, answer.will_close) == (plain.status, plain.headers, plain.will_close)


class Reluctant:
    """A source that has nothing before each piece that it has."""

    def __init__(self, left: list[bytes], *, ends: bool) -> None:
        self.left = left
        self.ends = ends
        self.asked = False

    def recv(self, _: int, /) -> bytes:
        self.asked = not self.asked
        if self.asked:
            raise BlockingIOError
        assert self.left or self.ends, "it asks for more than there is"
        return self.left.pop(0) if self.left else b""


def until_done(read: Callable[[], T]) -> T:
    while True:
        with contextlib.suppress(BlockingIOError):
            return read()


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "headers"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 50_000, "trailer"),
    ],
)
def test_interim_answers_and_trailers_have_an_end(sent: bytes, what: str) -> None:
    answer = Answer(Reluctant([sent], ends=True))

    def read() -> None:
        until_done(answer.begin)
        until_done(lambda: answer.read_all(1000))

    with pytest.raises(http.client.LineTooLong, match=what):
        read()
