"""`python -m hack.site`: stage the pages, and build them with MkDocs. A warning of MkDocs is an error."""

from __future__ import annotations

import os
import subprocess
import sys

from hack.site.pages import api_pages, cli_reference
from hack.site.stage import ROOT, StageError, stage

SOURCE = ROOT / "build" / "docs-source"
SITE = ROOT / "build" / "docs"
BUILD_SECONDS = 600.0


def main() -> int:
    """Build the site into `build/docs`; returns the exit code."""
    try:
        stage(SOURCE)
    except StageError as error:
        print(error, file=sys.stderr)
        return 1
    for place, text in {"cli.md": cli_reference(), **api_pages()}.items():
        path = SOURCE / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # Material prints a notice about MkDocs 2; setup.cfg allows MkDocs 1 only.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=BUILD_SECONDS)
    if done.returncode == 0:
        print(SITE.relative_to(ROOT) / "index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
