import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.servers.http.messages import Answer, Refusal, encode_head, parse_head


def test_a_request_is_read_an_offer_passed_over_and_an_answer_says_how_long_it_is_and_whether_it_is_the_last() -> None:
    request = parse_head(b"POST /convert?a=1?b HTTP/1.1\r\nContent-Length: 2 \r\nX:  a\r\nx: b\r\n\r\n")
    assert (request.method, request.path, request.query) == ("POST", "/convert", "a=1?b")
    assert request.headers == {"content-length": "2", "x": "a, b"}
    assert not request.last
    head = b"GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"
    assert parse_head(head).path == "/"
    assert encode_head(Answer(b"ok\n"), last=True) == (
        b"HTTP/1.1 200 OK\r\nServer: tfoperator\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: 3\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize("head", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n"])
def test_the_last_request_of_a_connection_is_told(head: bytes) -> None:
    assert parse_head(head).last


@given(st.binary(max_size=300))
def test_spoilt_heads_are_refused(head: bytes) -> None:
    with contextlib.suppress(Refusal):
        assert parse_head(head + b"\r\n\r\n").body == b""


@pytest.mark.parametrize(
    ("target", "path", "query", "host"),
    [
        ("https://there.example:8/a/b?c=d", "/a/b", "c=d", "there.example:8"),
        ("HTTP://there.example?c=http://x/y", "/", "c=http://x/y", "there.example"),
        ("http://there.example", "/", "", "there.example"),
        ("http:///a", "/a", "", "here"),
        ("/a?b=http://x/y", "/a", "b=http://x/y", "here"),
        ("//a", "//a", "", "here"),
    ],
)
def test_a_target_may_be_a_whole_url_whose_host_replaces_the_header(
    target: str, path: str, query: str, host: str
) -> None:
    request = parse_head(f"GET {target} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    assert (request.path, request.query, request.headers["host"]) == (path, query, host)
