"""Broken HTTP: bytes that a client sends which does not speak it well, or means harm."""

import socket
import ssl
import struct
from contextlib import ExitStack, suppress

_CONFUSED = b"GET / HTTP/1.1\r\nHost: x\r\n"

BROKEN_REQUESTS: dict[str, bytes] = {
    "nothing": b"",
    "no request line": b"\r\n\r\n\r\n\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "binary": bytes(range(256)) * 8,
    "NULs": b"\0" * 4096,
    "no version": b"GET /\r\n\r\n",
    "HTTP/0.9": b"GET / HTTP/0.9\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/2 by prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "a version without end": b"GET / HTTP/1.1.1.1.1.1\r\nHost: x\r\n\r\n",
    "a strange method": b"M\xc3\x84H / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long method": b"A" * 70000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target without /": b"GET x HTTP/1.1\r\nHost: x\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT": b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "CONNECT without a port": b"CONNECT [ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a whole URL": b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "a URL with a strange port": b"GET http://x:99999999/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "two slashes": b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n",
    "percent signs": b"GET /%ff%fe%%%zz?%ff=%&%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes above 127": b"GET /\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n",
    "a long line": b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long header": _CONFUSED + b"X: " + b"a" * 200000 + b"\r\n\r\n",
    "many headers": _CONFUSED + b"".join(b"X-%d: y\r\n" % number for number in range(20000)) + b"\r\n",
    "a header without colon": _CONFUSED + b"nothing\r\n\r\n",
    "a header without name": _CONFUSED + b": x\r\n\r\n",
    "a space before the colon": _CONFUSED + b"X : y\r\n\r\n",
    "a NUL in a header": _CONFUSED + b"X: a\0b\r\n\r\n",
    "a folded header": _CONFUSED + b"X: a\r\n b\r\n\r\n",
    "a lone CR": _CONFUSED + b"X: a\rY: b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "a strange host": b"GET / HTTP/1.1\r\nHost: [::1:99999\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a negative length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "a length that is no number": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
    "a huge length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\n",
    "a strange transfer encoding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a strange chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "a huge chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 400 + b"\r\n",
    "a negative chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a chunk without end": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
    "a long extension of a chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    + b"a" * 200000,
    "bare LFs between chunks": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
    "a strange trailer": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nnothing\r\n\r\n",
    "no gzip": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    "no deflate": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: deflate\r\nContent-Length: 3\r\n\r\nabc",
    "no brotli": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc",
    "a strange expectation": _CONFUSED + b"Expect: miracles\r\n\r\n",
    "a body that does not come": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
    "a head that does not end": _CONFUSED + b"X: ",
    "a strange upgrade": _CONFUSED + b"Connection: Upgrade\r\nUpgrade: nothing\r\n\r\n",
    "an upgrade to h2c": _CONFUSED
    + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \xff\r\n\r\n",
    "an upgrade without a key": _CONFUSED + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a strange key": _CONFUSED
    + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \xff\r\n\r\n",
    "an upgrade with a body": b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Content-Length: 5\r\n\r\nabcde\x81\xff",
    "requests in a row": (_CONFUSED + b"\r\n") * 200 + b"\0\0",
    "a second one that is broken": _CONFUSED + b"\r\nGARBAGE\0\xff\r\n\r\n",
    "a token that is no text": _CONFUSED + b"Authorization: Bearer \xff\xfe\r\n\r\n",
    "a cookie": _CONFUSED + b'Cookie: a="\\\xff; b\0; =; ;;' + b"=;" * 4000 + b"\r\n\r\n",
    "a range": _CONFUSED + b"Range: bytes=9-1,-,a\r\nIf-Modified-Since: yesterday\r\nAccept: ;;q=x,*/*;q=9\r\n\r\n",
}
"""By what is wrong with them."""


def send_broken(port: int, data: bytes, context: ssl.SSLContext | None = None, *, reset: bool = False) -> None:
    """Send bytes and leave: when the server has answered or ended the connection, or at once, by a reset."""
    with ExitStack() as stack, suppress(OSError):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        if context is not None:
            connection = stack.enter_context(context.wrap_socket(connection, server_hostname="127.0.0.1"))
        connection.settimeout(0.1)
        connection.sendall(data)
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            while connection.recv(1 << 16):
                pass
