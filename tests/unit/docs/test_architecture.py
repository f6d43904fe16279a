"""The picture of the floors in ARCHITECTURE.md is the contract in setup.cfg that import-linter checks."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


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
        found = {room.strip() for room in rooms.split("|") if room.strip()}
        if rooms.startswith("|"):
            floors[-1] |= found
        else:
            floors.append(found)
    return floors


def test_the_picture_of_the_floors_is_the_contract() -> None:
    assert picture() == contract()


def test_every_package_has_its_place_in_it() -> None:
    packages = {path.parent.name for path in (ROOT / "tfoperator").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "tfoperator").glob("*.py") if not path.stem.startswith("__")}
    assert set().union(*contract()) == packages | modules
