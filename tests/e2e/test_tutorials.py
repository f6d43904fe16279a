"""The tutorials as somebody follows them: files that they show are written, and each `sh` block is run, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack import gobuild
from tests.support.cli import COMMAND

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIALS = sorted(DOCS.glob("tutorial-*.md"))
_BLOCK = re.compile(r'^```(\w*)(?: title="([\w.-]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SECONDS = 480.0


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of somebody who has tfoperator and kubectl, a home, and nothing in it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(gobuild.find("kubectl"))
    tfoperator = programs / "tfoperator"
    tfoperator.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    tfoperator.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    found = {
        "PATH": f"{programs}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": str(DOCS.parent),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
    }
    yield found
    subprocess.run([str(tfoperator), "local", "down", "--now"], env=found, cwd=home, capture_output=True, check=False)


@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    lines = ["set -euo pipefail"]
    for language, title, text in _BLOCK.findall(page.read_text()):
        if title:
            # Files come when the page comes to them, and not before.
            lines.append(f"cat > {title} <<'END OF THE FILE'\n{text}END OF THE FILE")
        elif language == "sh":
            lines.append(text)
    # One shell for all: a tutorial's `eval` and variables hold for what comes after.
    done = subprocess.run(
        ["bash", "-xc", "\n".join(lines)], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
