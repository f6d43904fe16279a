"""Records the first hour of a new user: types `make run` in a new clone, and the commands of the tutorials.

`python -m hack.film` writes docs/first-hour.cast, which `asciinema play` shows. It isn't part of `make generate`,
because two recordings always differ. It needs bash, and the kubectl that tests build.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from hack import gobuild

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "first-hour.cast"
TUTORIALS = tuple(ROOT / "docs" / f"tutorial-{name}.md" for name in ("train", "operate", "pipeline"))
COLUMNS, LINES = 120, 36
SECONDS = 480.0
"""For one command; the slowest makes a cluster."""

_HEADING_OR_BLOCK = re.compile(r'^## ([^\n]*)$|^```(\w*)(?: title="([\w.-]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_READY = re.compile(rb"\x1b\]133;(?:D;(\d+)|P)\x07")
"""Marks of the end of a command, with its exit code, and of the prompt for more of it; terminals don't show them."""
_OF_INSTALLERS = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")
_SHELL = """PS1=$'$ \\e]133;D;$?\\a'; PS2=$'> \\e]133;P\\a'; set +H -o pipefail"""


class FilmError(Exception):
    """A command failed, or did not end in time; the message has it and what it printed."""


def script(page: Path) -> Iterator[tuple[str, str]]:
    """Return the page's headings ("m") and what one types ("i"), in order: files where it shows them, and commands."""
    for heading, language, title, text in _HEADING_OR_BLOCK.findall(page.read_text()):
        if heading:
            yield "m", heading
        elif title:
            yield "i", f"cat > {title} <<'END OF THE FILE'\n{text}END OF THE FILE\n"
        elif language == "sh":
            yield "i", text


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a person who has tfoperator and kubectl, and an empty home below the folder."""
    programs, home = folder / "bin", folder / "home"
    programs.mkdir()
    home.mkdir()
    (programs / "kubectl").symlink_to(gobuild.find("kubectl"))
    tfoperator = programs / "tfoperator"
    tfoperator.write_text(f'#!/bin/sh\nexec {sys.executable} -m tfoperator.cli "$@"\n')
    tfoperator.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if name.startswith(_OF_INSTALLERS)},
        "PATH": f"{programs}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
    }


def end_cluster(variables: Mapping[str, str]) -> None:
    """End the control plane that is left of a film that failed."""
    subprocess.run(
        ["tfoperator", "local", "down", "--now"], env=dict(variables), cwd=variables["HOME"],
        capture_output=True, check=False,
    )  # fmt: skip


class Film:
    """A shell on a terminal, and what was typed and shown there: events of asciinema's second format."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """Start the shell in this folder. End it with `close()`."""
        self.events: list[tuple[float, str, str]] = []
        self._began = time.monotonic()
        self._terminal, theirs = os.openpty()
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"],
            cwd=folder, env={**variables, "COLUMNS": str(COLUMNS), "LINES": str(LINES)},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.type(f"stty cols {COLUMNS} rows {LINES}; {_SHELL}")
        self.events.clear()

    def play(self, page: Path) -> None:
        """Type all commands of the page. Raises FilmError."""
        for kind, text in script(page):
            if kind == "m":
                self._add("m", text)
                continue
            for line in text.splitlines():
                self.type(line)

    def close(self) -> None:
        """End the shell."""
        os.close(self._terminal)
        self._shell.terminate()
        self._shell.wait(30)

    def write(self, path: Path, title: str) -> None:
        """Write the film. Raises FilmError if it shows where this checkout is."""
        head = {"version": 2, "width": COLUMNS, "height": LINES, "title": title, "idle_time_limit": 2}
        text = "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in (head, *self.events))
        text = re.sub(r"#token=[\w-]+", "#token=...", text)
        if str(ROOT) in text:
            raise FilmError(f"the film shows {ROOT}")
        path.write_text(text, encoding="utf-8")

    def _add(self, kind: str, text: str) -> None:
        self.events.append((round(time.monotonic() - self._began, 3), kind, text))

    def type(self, line: str) -> None:
        """Type a line, and return when the shell waits for the next. Raises FilmError."""
        self._add("i", f"{line}\n")
        os.write(self._terminal, f"{line}\n".encode())
        output, deadline = b"", time.monotonic() + SECONDS
        while (ready := _READY.search(output)) is None:
            readable, _, _ = select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))
            if not readable:
                raise FilmError(
                    f"{line.strip()} has not ended after {SECONDS:.0f} s:\n{output.decode(errors='replace')}"
                )
            output += self._read()
        if ready[1] not in (None, b"0"):
            raise FilmError(f"{line.strip()} ended with {ready[1].decode()}:\n{output.decode(errors='replace')}")

    def _read(self) -> bytes:
        data = os.read(self._terminal, 1 << 16)
        self._add("o", self._decoder.decode(data))
        return data


def clone(folder: Path) -> Path:
    """Return a fresh clone of this checkout, in the folder."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "tfoperator")], check=True)
    return folder / "tfoperator"


def main() -> int:
    """Make the film."""
    folder = Path("/tmp/first-hour")
    folder.mkdir(mode=0o700)
    variables = environment(folder)
    film = Film(clone(folder), variables)
    try:
        film.type("make run")
        for page in TUTORIALS:
            film.type(f"mkdir ../{page.stem}; cd ../{page.stem}")
            film.play(page)
        film.write(TARGET, "tfoperator: the first hour")
    except FilmError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        film.close()
        end_cluster(variables)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
