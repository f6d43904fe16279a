"""Converts errors of sockets and of the module `answer` into this package's errors, and sets the socket options."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl

from httptools import HttpParserError

from tfoperator.kube.protocol.errors import ConnectionRefused, DeadlineExceeded, MalformedResponse, TransportError

BROKEN = (OSError, EOFError, HttpParserError, ValueError)
"""The errors that a connection can raise. ValueError stands for an invalid host name."""

# Seconds, seconds, number of probes: the kernel notices a dead peer within a minute.
_KEEPALIVE_IDLE, _KEEPALIVE_INTERVAL, _KEEPALIVE_PROBES = 30, 10, 3


def read_error(error: Exception, host: str) -> TransportError:
    """Return the error for a failure while reading a response."""
    if isinstance(error, TimeoutError):
        return DeadlineExceeded(f"no answer from {host} in time")
    if isinstance(error, EOFError | ConnectionError | ssl.SSLEOFError):
        return TransportError(f"{host} closed the connection in the middle of an answer")
    if isinstance(error, HttpParserError):
        return MalformedResponse(f"{host} does not answer with valid HTTP/1.1: {error}")
    return TransportError(f"the connection to {host} failed: {error}")


def connect_error(error: Exception, where: str) -> TransportError:
    """Return the error for a failure while connecting."""
    if isinstance(error, ConnectionRefusedError):
        return ConnectionRefused(f"no server listens at {where}: connection refused")
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransportError(
            f"the certificate of {where} is not trusted ({error.verify_message}): check the certificate authority "
            "and the server's name in the kubeconfig"
        )
    if isinstance(error, ssl.SSLError):
        return TransportError(f"TLS with {where} failed: {error.reason or error}")
    if isinstance(error, socket.gaierror):
        return TransportError(f"cannot resolve the name of {where}: {error.strerror}")
    if isinstance(error, TimeoutError):
        return TransportError(f"cannot connect to {where}: no answer in time")
    return TransportError(f"cannot connect to {where}: {error}")


def await_connection(sock: socket.socket, error: int, timeout: float) -> None:
    """Wait until the connection that `connect_ex` has begun on a non-blocking socket is established.

    `error` is the number that `connect_ex` returned. Afterwards the socket has this `timeout` (seconds) for reads and
    writes. Raises OSError if the connection fails, and TimeoutError if it takes longer than `timeout`.
    """
    if error in (errno.EINPROGRESS, errno.EWOULDBLOCK):
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        if not poll.poll(timeout * 1000):
            raise TimeoutError(f"no connection within {timeout:g} s")
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))
    sock.settimeout(timeout)


def set_timeout(sock: socket.socket, seconds: float) -> None:
    """Set the socket's timeout. 0 means non-blocking. If this timeout is already set, make no system call."""
    if sock.gettimeout() != seconds:
        sock.settimeout(seconds)


def readable(sock: socket.socket) -> bool:
    """Return whether the socket has data to read.

    If an idle connection is readable, the server has closed the connection, or has sent bytes without a request.
    """
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def shut_down(sock: socket.socket) -> None:
    """Wake the threads that read from a socket.

    `SSLSocket.shutdown` is not used: it would end TLS while another thread still reads through it.
    """
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def keep_alive(sock: socket.socket) -> None:
    """Enable TCP keepalive, so that reads from a connection to a dead peer fail within a minute."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)  # Linux, macOS
    if idle is not None:
        sock.setsockopt(socket.IPPROTO_TCP, idle, _KEEPALIVE_IDLE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)
