"""`python -m hack.bench.terminal`: `tfoperator run` and a program that prints more than anybody can read.

Three runs, as a person would start them: so many lines into a pipe, the same on a terminal (a pty, read at once),
and many more on a terminal with Ctrl-C in the middle. A run whose outcome is wrong gives no figure: in the pipe
each line has to arrive, on the terminal each has to be shown or counted, and after Ctrl-C the exit code is 130.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

_COMMAND = [sys.executable, "-m", "tfoperator.cli", "run", "job.yaml"]
_LINE = "step {} of very many: loss 0.123456, accuracy 0.654321, 12 ms per step"
_LIMIT = 600.0
_SHOWN = re.compile(rb"\| step \d+ of")
_SKIPPED = re.compile(rb"\.\.\. ([\d,]+) more lines? in ")
_CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class WrongOutcome(Exception):
    """A run did not do what it had to, so its time means nothing."""


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """The measured figures; times are in seconds, of the whole command."""

    lines: int
    pipe: float
    terminal: float
    lines_shown: int
    interrupted_lines: int
    interrupt_answered: float
    interrupt_ended: float

    @property
    def ratio(self) -> float:
        """The terminal's time in times of the pipe's."""
        return self.terminal / self.pipe


class _Seen(msgspec.Struct):
    seconds: float
    output: bytes
    exit_code: int
    answered: float = 0.0
    ended: float = 0.0


def measure(folder: Path, *, lines: int, interrupted_lines: int) -> Figures:
    """All three runs. Raises WrongOutcome."""
    _job(folder, lines)
    pipe = _in_a_pipe(folder)
    _expect(pipe.output.count(b"] step "), lines, "lines in the pipe")
    _expect(pipe.exit_code, 0, "exit code in the pipe")
    shown = _on_a_terminal(folder)
    _expect(shown.exit_code, 0, "exit code on the terminal")
    plain = _CONTROLS.sub(b"", shown.output)
    count = len(_SHOWN.findall(plain))
    skipped = sum(int(number.replace(b",", b"")) for number in _SKIPPED.findall(plain))
    _expect(count + skipped, lines, "lines shown or counted on the terminal")
    _job(folder, interrupted_lines)
    stopped = _on_a_terminal(folder, interrupt_at=b"more lines in")
    _expect(stopped.exit_code, 130, "exit code after Ctrl-C")
    return Figures(
        lines=lines,
        pipe=round(pipe.seconds, 2),
        terminal=round(shown.seconds, 2),
        lines_shown=count,
        interrupted_lines=interrupted_lines,
        interrupt_answered=round(stopped.answered, 2),
        interrupt_ended=round(stopped.ended, 2),
    )


def _expect(actual: int, expected: int, description: str) -> None:
    if actual != expected:
        raise WrongOutcome(f"{description}: {actual} instead of {expected}")


def _job(folder: Path, lines: int) -> None:
    program = f"import sys\nfor n in range({lines}): sys.stdout.write(f'{_LINE.format('{n}')}\\n')\n"
    (folder / "train.py").write_text(program)
    # Python's own buffering would make it slower than what it is to measure.
    buffered = [{"name": "PYTHONUNBUFFERED", "value": ""}]
    container = {"name": "tensorflow", "image": "none", "command": ["python", "train.py"], "env": buffered}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "flood"}}
    (folder / "job.yaml").write_text(json.dumps(job | {"spec": {"tfReplicaSpecs": {"Worker": worker}}}))


def _in_a_pipe(folder: Path) -> _Seen:
    began = time.monotonic()
    done = subprocess.run(
        _COMMAND,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_LIMIT,
        check=False,
    )
    return _Seen(time.monotonic() - began, done.stdout, done.returncode)


def _on_a_terminal(folder: Path, interrupt_at: bytes = b"") -> _Seen:
    """Run on a pty, and press Ctrl-C when this text has been shown; without one never."""
    began = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:  # another program from here on
        os.chdir(folder)
        os.environ["TERM"] = "xterm"
        os.execv(_COMMAND[0], _COMMAND)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    output = bytearray()
    pressed = answered = 0.0
    while time.monotonic() < began + _LIMIT:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            output += os.read(terminal, 1 << 20)
        except OSError:  # its end
            break
        if interrupt_at and not pressed and interrupt_at in output:
            os.write(terminal, b"\x03")
            pressed = time.monotonic()
        elif pressed and not answered and b"stopping the job in order" in output:
            answered = time.monotonic()
    ended = time.monotonic()
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(status)
    return _Seen(ended - began, bytes(output), code, max(0.0, answered - pressed), ended - pressed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 if an outcome was wrong."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.terminal", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000, metavar="N", help="in pipe and terminal (%(default)s)")
    parser.add_argument("--interrupted-lines", type=int, default=6_000_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = measure(Path(folder), lines=options.lines, interrupted_lines=options.interrupted_lines)
        except WrongOutcome as error:
            print(f"refused: {error}", file=sys.stderr)
            return 1
    if options.json:
        print(json.dumps(msgspec.to_builtins(figures) | {"ratio": round(figures.ratio, 2)}))
        return 0
    print(f"{figures.lines:,} lines: {figures.pipe:.1f} s in a pipe, {figures.terminal:.1f} s on a terminal", end=" ")
    print(f"({figures.ratio:.2f} times; {figures.lines_shown:,} shown, the rest counted)")
    print(
        f"Ctrl-C amid {figures.interrupted_lines:,} lines: answered after {figures.interrupt_answered:.2f} s,", end=" "
    )
    print(f"ended after {figures.interrupt_ended:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
