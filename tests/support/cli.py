"""The command line as a real process, in a directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually

COMMAND = (sys.executable, "-m", "tfoperator.cli")


class Cli:
    """`tfoperator` started in `folder`. Every call is bounded by `timeout` seconds."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, **environment}

    def run(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def start(self, *arguments: str) -> CliProcess:
        """Start, and go on with the test."""
        return CliProcess([*COMMAND, *arguments], self.folder, self.environment)


class CliProcess:
    """A running command whose output can be waited for. Use as a context manager: it is killed at the end."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._output: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def output(self) -> str:
        """Everything so far, standard error included."""
        return "".join(self._output)

    def until(self, text: str, within: float = 30) -> None:
        """Wait until the output has some text."""

        def said() -> bool:
            assert text in self.output, f"no {text!r} in:\n{self.output}"
            return True

        eventually(said, within=within, what=f"output of {text!r}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        self.process.send_signal(number)

    def wait(self, timeout: float = 30) -> int:
        """Its exit code."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def __enter__(self) -> CliProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._output.append(line)


def replica(*command: str, replicas: int = 1, restart: str = "Never", **container: Any) -> dict[str, Any]:
    """A replica spec that runs a command."""
    tensorflow = {"name": "tensorflow", "image": "none", "command": list(command), **container}
    return {"replicas": replicas, "restartPolicy": restart, "template": {"spec": {"containers": [tensorflow]}}}


def tfjob(name: str, *, clean: str = "Running", run_policy: dict[str, Any] | None = None, **replicas: Any) -> str:
    """A manifest (JSON is YAML)."""
    spec = {"runPolicy": {"cleanPodPolicy": clean, **(run_policy or {})}, "tfReplicaSpecs": replicas}
    return json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec})
