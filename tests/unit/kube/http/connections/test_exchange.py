import select
import socket

from tfoperator.kube.http.connections.exchange import Exchange
from tfoperator.kube.http.connections.pool import ClientConnection

ANSWER = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


def test_an_answer_before_the_end_of_the_request_wakes_nobody() -> None:
    """Else a thread that waits for the connection would wake up again and again, and could do nothing about it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        exchange = Exchange(ClientConnection(ours, None), b"x" * 5_000_000, 60.0, 1000)
        theirs.sendall(ANSWER)
        theirs.settimeout(60)
        while not exchange.advance() and exchange.unsent:
            assert exchange.awaits == select.POLLOUT
            assert theirs.recv(1 << 20)
        assert exchange.awaits == select.POLLIN
        assert exchange.advance()
        assert (exchange.answer.status, exchange.answer.read_all()) == (201, b"{}")


def test_however_much_has_come_others_have_their_turn() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each piece is read by itself
    with ours, theirs:
        exchange = Exchange(ClientConnection(ours, None), b"x", 60.0, 1000)
        assert not exchange.advance()
        theirs.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 40\r\n\r\n")
        for _ in range(40):
            theirs.sendall(b"x")
        turns = 1
        while not exchange.advance():
            assert exchange.has_more, "nothing tells of what is left of a TLS record"
            turns += 1
        assert exchange.answer.read_all() == b"x" * 40
        assert turns >= 10


def test_what_has_more_to_come_waits_for_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        exchange = Exchange(ClientConnection(ours, None), b"x", 60.0, 1000)
        assert not exchange.advance()
        for piece in (ANSWER[:10], ANSWER[10:-1]):
            theirs.sendall(piece)
            assert not exchange.advance()
            assert (exchange.has_more, exchange.awaits) == (False, select.POLLIN)
        theirs.sendall(ANSWER[-1:])
        assert exchange.advance()
        assert exchange.answer.read_all() == b"{}"
