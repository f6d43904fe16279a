"""Draws docs/run.svg: what `tfoperator run examples/digits/tfjob.yaml` shows on a terminal, half-way through.

The job really runs, and the picture is made of the changes that the command's own view gets. Run `python
hack/screenshot.py` after a change of that view. It isn't part of `make generate`, for no two runs look the same.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from tfoperator.api.loading import load_manifests
from tfoperator.cli.views.run.live import LiveView
from tfoperator.local.run.job_run import JobRun

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "run.svg"
MANIFEST = "examples/digits/tfjob.yaml"
MOMENT = "step 400/"
WIDTH = 108
LINES = 16
"""The last lines of the log: readers don't look at a picture that is taller than a screen."""


class Camera(LiveView):
    """Takes its picture when the chief prints `MOMENT`."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO(), force_terminal=True, width=WIDTH))
        self._lines: list[tuple[str, str]] = []
        self.picture = ""

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Keep the lines instead of printing them."""
        new = list(lines)
        self._lines += new
        if not self.picture and any(MOMENT in text for _, text in new):
            self.picture = self._draw()

    def _draw(self) -> str:
        paper = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor")
        paper.print(self.styled(self._lines[-LINES:]), end="", highlight=False)
        paper.print(self.table())
        picture = paper.export_svg(title=f"tfoperator run {MANIFEST}", unique_id="run")
        # The fonts would be fetched from elsewhere; any monospaced one does.
        return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)


def main() -> int:
    """Run the example and write the picture."""
    camera = Camera()
    with tempfile.TemporaryDirectory() as folder:
        objects = [manifest.obj for manifest in load_manifests(str(ROOT / MANIFEST))]
        result = JobRun(objects, camera, run_dir=Path(folder), timeout=120).execute()
        camera.close()
    if not camera.picture:
        sys.stderr.write(f"the run ended as {result.outcome}, before {MOMENT!r} was said\n")
        return 1
    TARGET.write_text("\n".join(line.rstrip() for line in camera.picture.splitlines()) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
