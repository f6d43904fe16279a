"""`tfoperator run` on a terminal, and in a pipe, when its programs print more than anybody can read."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.e2e.test_run_fast import cli
from tests.support.cli import COMMAND, Cli, replica, tfjob
from tests.support.eventually import eventually
from tests.support.visitor import Visitor, until_all
from tfoperator.local.identity import identify

__all__ = ["cli"]

LINK = re.compile(r"(?P<url>http://127\.0\.0\.1:(?P<port>\d+)/)#token=[\w-]+")
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHOWN = re.compile(r"^worker-0 \| (\d+)$")
SKIPPED = re.compile(r"^worker-0 \| \.\.\. ([\d,]+) more lines? in (\S+)$")


class Terminal:
    """A command on a terminal of its own, 300 columns wide, and what it has printed there."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.output = ""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:  # pragma: no cover - another program from here on
            os.chdir(folder)
            os.environ["TERM"] = "xterm"
            os.environ["PYTHONUNBUFFERED"] = "1"  # as in containers; a write that Ctrl-C cuts off has no buffer then
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # Before the command looks at its terminal.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 300, 0, 0))
            # Without NOFLSH, Ctrl-C has the kernel throw away what was printed and is not read yet.
            attributes = termios.tcgetattr(0)
            attributes[3] |= termios.NOFLSH
            termios.tcsetattr(0, termios.TCSANOW, attributes)
            os.execv(COMMAND[0], [*COMMAND, *arguments])

    def read_until(self, enough: Callable[[str], object], within: float = 150) -> None:
        """Read until the output is `enough`, or has ended."""
        end = time.monotonic() + within
        while not enough(self.output):
            assert time.monotonic() < end, self.output[-3000:]
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    self.output += os.read(self._terminal, 1 << 20).decode(errors="replace")
                except OSError:  # the other end is closed: that was all
                    return

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._terminal, text.encode())

    def wait(self) -> int:
        """Read to the end; the exit code."""
        self.read_until(lambda _: False)
        _, status = os.waitpid(self.pid, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)

    @property
    def lines(self) -> list[str]:
        """The printed text, without colours, movements of the cursor, and the terminal's own echo of Ctrl-C."""
        text = CONTROLS.sub("", self.output).replace("^C", "").replace("\r", "\n")
        return [line.strip() for line in text.split("\n")]


def test_a_flood_is_skipped_and_counted_hides_nobody_and_does_not_delay_ctrl_c(cli: Cli) -> None:
    flood = "echo $$$$ > pid; seq 1 3000000; touch flooded; while true; do seq 1 3000; sleep 0.01; done"
    quiet = "until [ -e flooded ]; do sleep 0.05; done; for n in 1 2 3 4 5; do echo heard $n; done; exec sleep 600"
    act = f'case "$TF_CONFIG" in *\'"index":0\'*) {flood};; *) {quiet};; esac'
    cli.write(tfjob("loud", Worker=replica("sh", "-c", act, replicas=2)))

    terminal = Terminal(cli.folder, "run", "job.yaml")
    terminal.read_until(lambda output: "more lines in" in output and "heard 5" in output)
    terminal.type("\x03")

    assert terminal.wait() == 130
    assert "stopping the job gracefully" in terminal.output
    result = json.loads((cli.folder / ".tfoperator/runs/latest/result.json").read_text())
    assert result["outcome"] == "Interrupted"
    eventually(lambda: identify(int((cli.folder / "pid").read_text())) is None, what="the flood has ended")
    assert [line for line in terminal.lines if " | heard " in line] == [f"worker-1 | heard {n}" for n in range(1, 6)]
    shown = [match for match in map(SHOWN.match, terminal.lines) if match]
    skipped = [match for match in map(SKIPPED.match, terminal.lines) if match]
    [log] = {match[2] for match in skipped}
    complete = (cli.folder / log).read_text().count("\n")
    assert len(shown) + sum(int(match[1].replace(",", "")) for match in skipped) == complete
    assert complete > 3_000_000 > len(shown), "each line is shown or counted, and all are in the file"


def test_a_progress_bar_is_no_flood_and_each_restart_is_told(cli: Cli) -> None:
    (cli.folder / "train.py").write_text("for n in range(100_001): print(f'\\r{n}/100000 steps', end='')\nprint()\n")
    once = "test -e again && exec python train.py; touch again; exit 137"
    cli.write(tfjob("steps", Worker=replica("sh", "-c", once, restart="OnFailure")))
    done = cli.run("run", "job.yaml", code=0)
    lines = done.stdout.splitlines()
    assert "[worker-0] exited with 137, started again (1)" in lines
    assert "[worker-0] 100000/100000 steps" in lines
    assert len(lines) < 40, done.stdout


def test_a_progress_bar_moves_in_the_table(cli: Cli) -> None:
    steps = ["import time", *(f"print('\\rstep {n}/9', end='', flush=True)\ntime.sleep(0.3)" for n in (1, 2))]
    (cli.folder / "train.py").write_text("\n".join([*steps, "time.sleep(600)"]))
    cli.write(tfjob("steps", Worker=replica("python", "train.py")))
    terminal = Terminal(cli.folder, "run", "job.yaml")
    # The row may show the bar before it shows that the replica runs.
    terminal.read_until(lambda _: [line for line in terminal.lines if "Running" in line and "step 2/9" in line])
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert [line for line in terminal.lines if "Running" in line and "step 2/9" in line]
    assert "worker-0 | step 1/9" not in terminal.lines


_REPORTS = """
import time
from tfoperator.progress import report

report(step=430, total_steps=1000, remaining_seconds=3000, loss=0.25)
time.sleep(600)
"""


def test_a_job_that_reports_has_a_bar_with_the_time_left_and_its_loss_in_the_table(cli: Cli) -> None:
    (cli.folder / "train.py").write_text(_REPORTS)
    cli.write(tfjob("reports", Worker=replica("python", "train.py"), spec={"progress": {}}))
    terminal = Terminal(cli.folder, "run", "job.yaml")

    def shown() -> list[str]:
        return [line for line in terminal.lines if "reports" in line and "43%  430/1000  ETA" in line]

    terminal.read_until(lambda _: shown())
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert "━" * 10 + "─" * 14 in shown()[0]
    assert "loss 0.25" in shown()[0]


@pytest.mark.parametrize(("code", "ended"), [(0, "Succeeded"), (3, "Failed")])
def test_the_page_of_a_run_that_has_ended_stays_until_ctrl_c(cli: Cli, code: int, ended: str) -> None:
    (cli.folder / "train.py").write_text(f"raise SystemExit({code})\n")
    terminal = Terminal(cli.folder, "run", "train.py", "--ui")
    terminal.read_until(lambda output: "is served until you press Ctrl-C" in output)
    link = LINK.search(terminal.output)
    assert link
    visitor = Visitor(cast(Any, SimpleNamespace(url=link["url"], port=int(link["port"]))))
    visitor.sign_in(link[0])
    with visitor.stream("/api/job?namespace=default&name=train") as lines:
        over, job = until_all(lines, "ended", "job")
    assert (over, job["state"]) == (True, ended)
    terminal.type("\x03")
    assert terminal.wait() == (1 if code else 0)
