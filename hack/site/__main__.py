"""`python -m hack.site`: stage the pages, and build them with MkDocs. A warning of MkDocs is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
    warnings = build(ROOT)
    print(warnings or SITE.relative_to(ROOT) / "index.html", file=sys.stderr if warnings else sys.stdout)
    return 1 if warnings else 0


def build(root: Path) -> str:
    """Build the site of the `mkdocs.yml` in `root`. Return the warnings and errors of MkDocs, or "" if it printed none.

    Raises subprocess.TimeoutExpired after BUILD_SECONDS.
    """
    # Material prints a notice about MkDocs 2; setup.cfg allows MkDocs 1 only.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # With `--quiet`, MkDocs does not count warnings, so `--strict` has no effect.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    done = subprocess.run(
        command, cwd=root, env=environment, check=False, timeout=BUILD_SECONDS, capture_output=True, text=True
    )
    if done.returncode == 0:
        return ""
    shown = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("INFO"))
    return shown or f"MkDocs ended with exit code {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
