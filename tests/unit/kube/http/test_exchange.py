from __future__ import annotations

import select
import socket

from tfoperator.kube.http.exchange import Exchange

ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


def test_an_answer_before_the_end_of_the_request_wakes_nobody() -> None:
    """Else whoever waits for the connection would be told of it again and again, and could do nothing about it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        exchange = Exchange(ours, b"x" * 5_000_000, None, 60.0, 1000)
        theirs.sendall(ANSWER)
        theirs.settimeout(60)
        while not exchange.advance() and exchange.unsent:
            assert exchange.awaits == select.POLLOUT
            assert theirs.recv(1 << 20)
        assert exchange.awaits == select.POLLIN
        assert exchange.advance()
        assert exchange.answer is not None
        assert (exchange.answer.status, exchange.body) == (201, b"{}")
