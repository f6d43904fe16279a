"""Measures what data workers bring: steps per second of a program that waits for its data, as a picture in docs/.

    python -m hack.data_service [--numbers 0,1,2,4]

The program is examples/data-service/train.py under `tfoperator run`; each element takes 20 ms to prepare. It takes two
minutes on an idle machine of 2 cores, for the elements wait and don't compute.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "data-service.svg"
PROGRAM = "examples/data-service/train.py"

_ELEMENTS = 400
_WAIT = 20
_LIMIT = 400
"""Seconds for one run."""

_BAR, _GAP, _HEIGHT, _TOP, _LEFT = 70, 30, 200, 40, 60


def measured(workers: int) -> float:
    """Return the steps per second with so many data workers, 0 for none. Raises RuntimeError if a run fails."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data-workers", str(workers), "--logs-dir", f"{folder}/run"]
        program = ["--", "--elements", str(_ELEMENTS), "--wait", str(_WAIT)]
        command = [sys.executable, "-m", "tfoperator.cli", "run", PROGRAM, *options, *program]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT, check=False)
    found = re.search(r"(\d+\.\d) steps per second", done.stdout)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"a run with {workers} data workers failed:\n{done.stdout}{done.stderr}")
    return float(found[1])


def picture(rates: Mapping[int, float]) -> str:
    """Return a bar chart of the steps per second by the number of data workers, as SVG."""
    width = _LEFT + len(rates) * (_BAR + _GAP) + _GAP
    highest = max(rates.values())
    bars = []
    for position, (workers, rate) in enumerate(rates.items()):
        left, height = _LEFT + _GAP + position * (_BAR + _GAP), _HEIGHT * rate / highest
        middle, top = left + _BAR / 2, _TOP + _HEIGHT - height
        bars.append(
            f'<rect x="{left}" y="{top:.1f}" width="{_BAR}" height="{height:.1f}" fill="#4051b5"/>'
            f'<text x="{middle}" y="{top - 6:.1f}">{rate:.1f}</text>'
            f'<text x="{middle}" y="{_TOP + _HEIGHT + 20}">{workers or "none"}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_TOP + _HEIGHT + 50}" '
        'font-family="sans-serif" font-size="14" text-anchor="middle" role="img">\n'
        "<title>Steps per second by the number of data workers</title>\n"
        f'<rect width="{width}" height="{_TOP + _HEIGHT + 50}" fill="white"/>\n'
        + "\n".join(bars)
        + f'\n<text x="{width / 2}" y="{_TOP + _HEIGHT + 42}">data workers</text>'
        f'\n<text x="{width / 2}" y="18">steps per second</text>\n</svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the numbers, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", default="0,1,2,4", help="numbers of data workers")
    numbers = [int(number) for number in parser.parse_args(arguments).numbers.split(",")]
    rates = {}
    for workers in numbers:
        rates[workers] = measured(workers)
        print(f"{workers} data workers: {rates[workers]:.1f} steps per second", flush=True)
    PICTURE.write_text(picture(rates))
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
