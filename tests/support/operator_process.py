"""The operator as a real process, as a Deployment would start it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from hack.processes import free_port, spawn, tail
from tests.support.eventually import eventually

__all__ = ["OperatorProcess", "ask", "free_port"]


class OperatorProcess:
    """`python -m tfoperator.operator` against a kubeconfig; its log goes to a file that failures can show.

    As a context manager it is started, and killed in the end if it still runs; the end of its log is printed.
    """

    def __init__(self, kubeconfig: Path, folder: Path, name: str = "operator", *flags: str) -> None:
        self.log = folder / f"{name}.log"
        self.metrics_port = free_port()
        self.health_port = free_port()
        self._command = [
            sys.executable, "-m", "tfoperator.operator", f"--kubeconfig={kubeconfig}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics_port}",
            f"--health-probe-bind-address=127.0.0.1:{self.health_port}", *flags,
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> OperatorProcess:
        self.process = spawn(self._command, self.log)
        return self

    def __enter__(self) -> OperatorProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
        print(f"--- {self.log.name}\n{self.tail(60)}")

    def wait_ready(self, within: float = 60) -> OperatorProcess:
        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"the operator ended:\n{self.tail()}"
            return self._get(self.health_port, "/readyz") is not None

        eventually(ready, within=within, every=0.02, what="the operator is ready")
        return self

    def wait_leads_for_a_second(self) -> OperatorProcess:
        """Wait until what is made now can't be older than its leadership: then it would be looked up, once.

        The API server's times are whole seconds.
        """
        ready = int(time.time())
        eventually(lambda: time.time() >= ready + 1, within=5, what="a new second")
        return self

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, by its name with labels."""
        text = self._get(self.metrics_port, "/metrics") or ""
        lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def stop(self, within: float = 60) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(60)
            raise AssertionError(f"the operator did not stop in {within} s:\n{self.tail()}") from None

    def tail(self, lines: int = 30) -> str:
        return tail(self.log, lines)

    @staticmethod
    def _get(port: int, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            error.close()
            return None
        except OSError:
            return None


def ask(port: int, path: str) -> tuple[int, str]:
    """Return the answer of an endpoint on loopback: the code and the text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
