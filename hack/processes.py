"""Functions for processes of this machine: start a process with a log file, check whether it answers, and end it."""

from __future__ import annotations

import os
import random
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

STOP_SECONDS = 10.0
"""Between SIGTERM and SIGKILL: kube-apiserver waits for open watches to end, which a test need not."""


_LISTENING = (10240, 32768)
"""Where Linux by default begins to take ports for outgoing connections (net.ipv4.ip_local_port_range), this ends."""

_kept: list[int] = []
"""File descriptors of `free_ports`: bound and not listening. Connections are refused until somebody listens there."""


def spawn(command: Sequence[str | Path], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that writes to the end of `log`; `options` are Popen's."""
    with log.open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)


def comes_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds; False if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def becomes_ready(process: subprocess.Popen[bytes], ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until `ready()` is true; return False if the process ends before, or is not ready in time."""
    return comes_true(lambda: process.poll() is not None or ready(), seconds) and process.poll() is None


def answers(url: str, *, token: str = "", ca_file: Path | None = None) -> bool:
    """Return whether a server on this machine answers 200 in time; `ca_file` is the authority of a TLS server."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        with urllib.request.urlopen(request, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def end_process(pid: int, ended: Callable[[], bool] | None = None) -> None:
    """SIGTERM, and SIGKILL if `ended` (by default: no such process) does not become true in time."""
    ended = ended or partial(_is_gone, pid)
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 5.0)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if comes_true(ended, seconds):
            return


def is_alive(pid: int) -> bool:
    """Whether there is such a process, if only a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def remove_cgroups(tops: Iterable[Path]) -> bool:
    """Remove control groups with those below them; False if one can't be: its last process is still on its way out."""
    for top in tops:
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                return False
    return True


def free_ports(count: int) -> list[int]:
    """Return free ports of loopback, which this function returns only once while this process lives.

    Not those that port 0 would give: the kernel gives them to outgoing connections, too, also before they are used.
    """
    ports: list[int] = []
    while len(ports) < count:
        reserved = socket.socket()
        try:
            reserved.bind(("127.0.0.1", random.randrange(*_LISTENING)))
        except OSError:  # a server listens there, or another call has reserved it
            reserved.close()
            continue
        # Only from here on, so that the next `bind` above is refused; a server sets it, too, and may listen.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ports.append(reserved.getsockname()[1])
        _kept.append(reserved.detach())
    return ports


def free_port() -> int:
    """One of `free_ports`."""
    return free_ports(1)[0]


def tail(path: Path, lines: int = 15) -> str:
    """The end of a text file."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def _is_gone(pid: int) -> bool:
    return not is_alive(pid)
