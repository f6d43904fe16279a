"""Copies the repository's pages into the folder that the site is built from, with links that hold there.

Pages are written for whoever reads them in the repository, where a link leads to a file. On the site it leads to a
page, to the part of a page that shows the file (examples), or to a copy of the file (manifests).
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
STATIC = Path(__file__).parent / "static"
PROJECT_PAGES = ("AGENTS.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "bash"}
"""By a file's suffix, how the site colours it; an example's file of another kind is shown as text."""

_CODE = re.compile(r"^(```|~~~).*?^\1 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")


class StageError(Exception):
    """A page has a link that leads nowhere; the message names both."""


def stage(target: Path) -> None:
    """Write everything that the site is made of, but for pages made from code. `target` is emptied first.

    Raises StageError for a link to a file that git doesn't know.
    """
    shutil.rmtree(target, ignore_errors=True)
    files = _tracked()
    places = _places(files)
    linked: set[str] = set()
    for path, place in places.items():
        if not path.endswith(".md"):
            _copy(path, target / place)
            continue
        text, targets = relinked((ROOT / path).read_text(), path, places, files)
        linked |= targets
        _write(target / place, text)
    for folder in _examples(files):
        _write(target / f"{folder}.md", example_page(folder, [file for file in files if file.startswith(f"{folder}/")]))
    for path in linked:
        _copy(path, target / "files" / path)
    shutil.copytree(STATIC, target / "static")


def relinked(text: str, path: str, places: dict[str, str], files: set[str]) -> tuple[str, set[str]]:
    """A page's text with its links changed for the site, and the files that they lead to and that have to be copied.

    `path` is the page's, `places` is where pages and pictures go, `files` is what there is; all relative to the
    repository.
    """
    here = posixpath.dirname(places[path])
    copied: set[str] = set()

    def changed(match: re.Match[str]) -> str:
        link = match[2]
        address, hash_sign, anchor = link.partition("#")
        if not address or re.match(r"[a-z]+:", address):
            return match[0]
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(path), address))
        if goal in places:
            place = places[goal]
        elif goal == "examples":
            place = "examples/index.md"
        elif goal in _examples(files):
            place = f"{goal}.md"
        elif goal.startswith("examples/") and goal in files:
            folder = "/".join(goal.split("/")[:2])
            place, hash_sign, anchor = f"{folder}.md", "#", file_anchor(posixpath.relpath(goal, folder))
        elif goal in files:
            copied.add(goal)
            place = f"files/{goal}"
        else:
            raise StageError(f"{path}: {link} leads to nothing")
        return f"{match[1]}{posixpath.relpath(place, here or '.')}{hash_sign}{anchor}{match[3]}"

    return "".join(part if code else _LINK.sub(changed, part) for code, part in _split_code(text)), copied


def example_page(folder: str, files: list[str]) -> str:
    """A page that shows the files of an example, each under a heading that links can lead to."""
    parts = [f"# {folder}\n\nRun from the repository's root, unless a file says otherwise.\n"]
    for path in sorted(files):
        if (ROOT / path).suffix in (".ipynb", ".lock"):
            continue
        name = posixpath.relpath(path, folder)
        language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
        text = (ROOT / path).read_text().rstrip("\n")
        parts.append(f"## {name} {{#{file_anchor(name)}}}\n\n````{language}\n{text}\n````\n")
    return "\n".join(parts)


def file_anchor(name: str) -> str:
    """The anchor of a file on its example's page."""
    return re.sub(r"[^\w-]", "-", name.lower())


def _places(files: set[str]) -> dict[str, str]:
    """Where each page and each picture goes, by its path in the repository."""
    places = {path: path.removeprefix("docs/") for path in files if path.startswith("docs/")}
    places |= {name: f"project/{name.lower()}" for name in PROJECT_PAGES}
    places |= {"docs/README.md": "index.md", "examples/README.md": "examples/index.md"}
    places |= {path: path for path in files if path.startswith("examples/") and path.endswith(".ipynb")}
    return places


def _examples(files: set[str]) -> list[str]:
    folders = {"/".join(path.split("/")[:2]) for path in files if path.startswith("examples/") and path.count("/") > 1}
    return sorted(folders)


def _split_code(text: str) -> list[tuple[bool, str]]:
    """The text in pieces, each with whether it is a block of code."""
    pieces, end = [], 0
    for match in _CODE.finditer(text):
        pieces += [(False, text[end : match.start()]), (True, match[0])]
        end = match.end()
    return [*pieces, (False, text[end:])]


def _tracked() -> set[str]:
    """Return files that git tracks, or would not ignore, so that a page can be seen before it is committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {path for path in listed if (ROOT / path).is_file()}


def _copy(path: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / path, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
