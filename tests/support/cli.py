"""The command line as a real process, in a directory of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support import manifests
from tests.support.cluster import decode
from tests.support.eventually import eventually, eventually_holds
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import PODS

COMMAND = (sys.executable, "-m", "tfoperator.cli")


class Cli:
    """`tfoperator` started in `folder`. Every call is bounded by `timeout` seconds. `prefix` begins each command."""

    def __init__(self, folder: Path, *, prefix: Sequence[str] = (), **environment: str) -> None:
        self.folder = folder
        self.command = (*prefix, *COMMAND)
        self.environment = {**os.environ, **environment}

    def run(self, *arguments: str, code: int | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run to the end, with this exit code if one is given, and without a traceback."""
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert code in (None, done.returncode), done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def write(self, *documents: str, name: str = "job.yaml") -> str:
        """A file of these documents in the folder; its name."""
        (self.folder / name).write_text("\n---\n".join(documents))
        return name

    def local_up(self, *flags: str) -> dict[str, str]:
        """Start a control plane that stays; the variables that `eval "$(tfoperator local up)"` would export."""
        done = self.run("local", "up", *flags, code=0)
        assert done.stdout.startswith("export KUBECONFIG="), done.stdout
        return dict(word.split("=", 1) for word in shlex.split(done.stdout.removeprefix("export ")))

    def stopped_by_its_end(self, kubeconfig: str, job: str) -> dict[str, Any]:
        """Let the running job's time be up, and wait until its only pod has ended; the pod's status."""
        with Client(load_config(kubeconfig)) as client:
            client.patch(TFJOBS, "default", job, {"spec": {"runPolicy": {"activeDeadlineSeconds": 1}}}, decode)

            def ended() -> dict[str, Any] | None:
                [pod] = client.list(PODS, "default", decode).items
                stopped = pod["metadata"].get("annotations", {}).get("training.kubeflow.org/stopped")
                return pod["status"] if (pod["status"]["phase"], stopped) == ("Failed", "job-failed") else None

            return eventually(ended, every=0.05, what=f"the pod of {job} is stopped") or {}

    def start(self, *arguments: str) -> CliProcess:
        """Start, and go on with the test."""
        return CliProcess([*self.command, *arguments], self.folder, self.environment)


@contextmanager
def local_cli(folder: Path, **environment: str) -> Iterator[Cli]:
    """The command line with a control plane of its own, known as `eval "$(tfoperator local up)"` makes it known."""
    cli = Cli(folder, XDG_STATE_HOME=str(folder / "state"), **environment)
    try:
        cli.environment |= cli.local_up()
        yield cli
    finally:
        cli.run("local", "down", "--now")


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

    def until(self, text: str, within: float = 60) -> None:
        """Wait until the output has some text."""

        def has_printed() -> None:
            assert text in self.output, f"no {text!r} in:\n{self.output}"

        eventually_holds(has_printed, within=within, what=f"output of {text!r}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        self.process.send_signal(number)

    def end(self, number: signal.Signals) -> int:
        """Send it a signal that ends it; returns its exit code."""
        self.signal(number)
        return self.wait()

    def wait(self, timeout: float = 60) -> int:
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


def lines_of(output: str, replica: str) -> str:
    """The lines of a replica in the output of `tfoperator run`, without the replica's name."""
    return "\n".join(re.findall(rf"^\[{replica}\] (.*)$", output, re.MULTILINE))


def replica(
    *command: str, replicas: int = 1, restart: str = "Never", grace: int | None = None, **container: Any
) -> dict[str, Any]:
    """A replica spec that runs a command, with so many seconds to end if they are given."""
    tensorflow = {"name": "tensorflow", "image": "none", "command": list(command), **container}
    pod = {"containers": [tensorflow], **({} if grace is None else {"terminationGracePeriodSeconds": grace})}
    return {"replicas": replicas, "restartPolicy": restart, "template": {"spec": pod}}


def tfjob(
    name: str,
    *,
    clean: str = "Running",
    run_policy: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **replicas: Any,
) -> str:
    """A manifest (JSON is YAML); an empty `clean` leaves the clean-up policy unset. `spec` is added to its spec."""
    policy = {"cleanPodPolicy": clean, **(run_policy or {})}
    return json.dumps(manifests.job(name, replicas, runPolicy=policy, **(spec or {})))


def container_process(run_dir: Path, pod: str) -> int:
    """The process id of a pod's container under `tfoperator run`, from the agent's records."""

    def recorded() -> int:
        for record in (run_dir / "processes").glob("*.json"):
            with suppress(FileNotFoundError):  # its process has ended meanwhile
                if f"/{pod}/" in record.read_text():
                    return int(record.stem)
        return 0

    return eventually(recorded, what=f"the process of {pod}")
