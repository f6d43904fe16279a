from __future__ import annotations

import http.client

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.kube.http.head import Head, headers_of

FRAMING = ("content-length", "transfer-encoding", "connection")

NAMES = st.sampled_from(
    ["Content-Length", "content-type", "TRANSFER-ENCODING", "Connection", "Date", "X-Trace", "Cache"]
)
VALUES = st.text(alphabet="ab:,; 1\t\xe9\n", max_size=12)
LINES = st.builds("{}:{}".format, NAMES, VALUES) | st.builds("{}{}".format, st.sampled_from(" \t"), VALUES)


@given(st.lists(LINES, max_size=12))
def test_what_says_where_the_body_ends_is_found_as_among_all_headers(lines: list[str]) -> None:
    head = Head("\r\n".join(["HTTP/1.1 200 OK", *lines]))
    everything = headers_of(lines)
    assert head.headers == everything
    assert dict(head.headers) == everything
    assert {name: head.framing.get(name) for name in FRAMING} == {name: everything.get(name) for name in FRAMING}


def test_a_value_that_goes_on_belongs_to_the_line_before() -> None:
    head = Head("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Trace: a\r\n  b\r\nConnection:\r\n\tclose")
    assert head.framing["content-length"] == "2"
    assert head.framing["connection"].strip() == "close"
    assert head.headers["x-trace"] == "a b"


def test_headers_of_one_name_are_joined() -> None:
    head = Head("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVary: a\r\ncontent-length: 3\r\nvary: b")
    assert head.framing["content-length"] == "2, 3"
    assert head.headers["vary"] == "a, b"


def test_headers_can_be_asked_for_as_in_a_dictionary() -> None:
    headers = Head("HTTP/1.1 200 OK\r\nRetry-After: 1\r\nDate: now").headers
    assert headers.get("retry-after") == "1"
    assert headers.get("warning") is None
    assert "date" in headers
    assert len(headers) == 2
    with pytest.raises(KeyError):
        headers["warning"]


@pytest.mark.parametrize(("line", "found"), [("HTTP/1.1 201 Created", (201, False)), ("HTTP/1.0 200", (200, True))])
def test_the_status_line_is_understood(line: str, found: tuple[int, bool]) -> None:
    head = Head(line)
    assert (head.status, head.is_old) == found


@pytest.mark.parametrize("line", ["HTTP/2 200 OK", "HTTP/1.1 20", "HTTP/1.1 2\xb22", "HTTP/1.1 099", "HTTP/1.1", ""])
def test_a_status_line_that_makes_no_sense_is_refused(line: str) -> None:
    for _ in range(2):
        with pytest.raises(http.client.BadStatusLine):
            Head(line)
