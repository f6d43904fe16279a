"""The picture of the floors in ARCHITECTURE.md is the contract in setup.cfg that import-linter checks.

The files and packages exist that this page, the pages of an event's way and of the invariants, and the notes of
decisions name. tests/unit/controller/test_event_path.py compares the files of an event's way.
"""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DECISIONS = ROOT / "docs/decisions"
HOUSES = ROOT / "docs/houses"
PAGES = [ROOT / "ARCHITECTURE.md", HOUSES / "one-event.md", HOUSES / "invariants.md", *sorted(DECISIONS.glob("*.md"))]


def contract() -> list[set[str]]:
    """The rooms of each floor, the highest floor first."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    layers = config["importlinter:contract:layers"]["layers"].split("\n")
    return [{room.strip() for room in floor.split("|")} for floor in layers if floor]


def picture() -> list[set[str]]:
    """The same from the page's first block; a line that begins with `|` goes on with the floor above it."""
    block = (ROOT / "ARCHITECTURE.md").read_text().partition("\n```\n")[2].partition("\n```\n")[0]
    floors: list[set[str]] = []
    for line in block.splitlines():
        rooms, gap, meaning = re.match(r"([a-z_| ]*?)( {2,}|$)(.*)", line.strip()).groups()  # type: ignore[union-attr]
        assert gap
        assert meaning
        names = {room.strip() for room in rooms.split("|") if room.strip()}
        if rooms.startswith("|"):
            floors[-1] |= names
        else:
            floors.append(names)
    return floors


def test_the_picture_of_the_floors_is_the_contract_and_has_a_place_for_every_package() -> None:
    assert picture() == contract()
    packages = {path.parent.name for path in (ROOT / "tfoperator").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "tfoperator").glob("*.py") if not path.stem.startswith("__")}
    assert set().union(*contract()) == packages | modules


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_files_and_packages_that_a_page_names_exist(page: Path) -> None:
    rooms = ("tfoperator", "tests", "hack", "manifests", "docs")
    there = "".join(f"/{path.relative_to(ROOT)}\n" for folder in rooms for path in (ROOT / folder).rglob("*"))
    named = re.findall(r"`([\w./-]+\.py|\w+(?:/\w+)+)/?`", page.read_text())
    assert [name for name in named if f"/{name}\n" not in there] == []


def test_the_list_of_decisions_is_complete() -> None:
    listed = re.findall(r"\]\((2[\w-]+\.md)\)", (DECISIONS / "README.md").read_text())
    assert sorted(listed) == sorted(note.name for note in DECISIONS.glob("2*.md"))
