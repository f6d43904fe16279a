"""Printed text arrives whole, however Python was started and whatever interrupts it."""

import os
import subprocess
import sys

import pytest

LINES = 100_000

PROGRAM = f"""
import signal
from tfoperator.cli.terminal.stdio import prepare
prepare()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
print("".join(f"line {{number}}\\n" for number in range({LINES})), end="", flush=True)
signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_signals_take_nothing_of_what_is_printed(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"line {number}" for number in range(LINES)]
