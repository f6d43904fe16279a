"""The things that the operator's process settles before anything else."""

import subprocess
import sys

_LOOK = """
import gc
from tfoperator.operator.__main__ import main
assert main(["--version"]) == 0
print(gc.get_threshold()[0], gc.get_freeze_count() > 1000)
"""


def test_cycles_are_looked_for_rarely_and_not_among_modules() -> None:
    done = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "20000 True"
