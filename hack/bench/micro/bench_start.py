"""The cost of a start: CPU seconds and the time to the first line, in turns, beside others that start programs.

CPU time counts all processes of a command. `python hello.py` is the least that a start can cost; honcho starts the
programs of a Procfile on one machine, and does nothing else.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROUNDS = 10
_LINE = "hello from the program"


def _commands() -> Mapping[str, Sequence[str]]:
    bin_folder = Path(sys.executable).parent
    return {
        "python hello.py": [sys.executable, "hello.py"],
        "honcho start": [str(bin_folder / "honcho"), "start"],
        "tfoperator run hello.py": [str(bin_folder / "tfoperator"), "run", "hello.py"],
        "tfoperator validate": [str(bin_folder / "tfoperator"), "validate", "job.yaml"],
        "tfoperator --help": [str(bin_folder / "tfoperator"), "--help"],
        "tfoperator --version": [str(bin_folder / "tfoperator"), "--version"],
    }


_JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: hello}
spec:
  tfReplicaSpecs:
    Worker: {template: {spec: {containers: [{name: tensorflow, image: python:3.12}]}}}
"""


def _start(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Run a command to its end; return its CPU seconds, and the seconds until the program's first line or the end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, began = os.times(), time.monotonic()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = next((time.monotonic() for line in process.stdout if _LINE in line), None) or time.monotonic()
        process.stdout.read()
    assert process.returncode == 0
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, first - began


def test_start(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(f"print({_LINE!r}, flush=True)\n")
    (tmp_path / "Procfile").write_text(f"web: {sys.executable} hello.py\n")
    (tmp_path / "job.yaml").write_text(_JOB)
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in _commands()}
    for _ in range(_ROUNDS + 1):  # the first round writes bytecode, and does not count
        for name, command in _commands().items():
            measured[name].append(_start(command, tmp_path))
    print(f"\n{'median of ' + str(_ROUNDS):<26} CPU s  first line s")
    for name, figures in measured.items():
        cpu, first = (statistics.median(column) for column in zip(*figures[1:], strict=True))
        print(f"{name:<26} {cpu:5.2f}  {first:12.2f}")
