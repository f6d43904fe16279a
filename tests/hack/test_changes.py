"""The places that a change touches: each change is made in a copy of this tree, whole, and without each place."""

import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from tests.hack.changes import CHANGES, Change, Place

ROOT = Path(__file__).resolve().parents[2]


def copied(folder: Path) -> Path:
    """Copy this tree, without files that git ignores, but with Python's compiled files, which take seconds to make."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    compiled = [cache_from_source(name) for name in listed if name.endswith(".py")]
    for name in (*listed, *compiled):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the modules of a copy, which come before this tree's modules."""
    return subprocess.run([sys.executable, *arguments], cwd=root, capture_output=True, text=True, check=False)


def checks(root: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    return run(root, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests)


@pytest.mark.timeout(600)  # 20 seconds of CPU time, on a machine that does other work
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.row)
def test_a_change_needs_each_of_its_places_and_a_check_names_the_one_that_is_missing(
    change: Change, tmp_path: Path
) -> None:
    assert len(change.places) <= change.most
    root = copied(tmp_path)
    files = {place.file: (root / place.file).read_text() for place in change.places}

    def make(places: tuple[Place, ...]) -> None:
        for file, text in files.items():
            (root / file).write_text(text)
        for place in places:
            place.edit(root)

    make(change.places)
    generated = run(root, "hack/generate.py")  # `make generate`: it edits what no person has to
    assert generated.returncode == 0, generated.stderr
    whole = checks(root, *(place.check for place in change.places))
    assert whole.returncode == 0, whole.stdout
    for missing in change.places:
        make(tuple(place for place in change.places if place is not missing))
        failed = checks(root, missing.check)
        assert failed.returncode != 0, f"nothing fails without the edit of {missing.file}: {failed.stdout}"
        printed = failed.stdout + failed.stderr
        assert missing.output in printed, f"{missing.check} does not name {missing.output}: {printed}"


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.row)
def test_the_page_names_each_place_of_a_change(change: Change) -> None:
    rows = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    [row] = [line for line in rows if line.startswith(f"| {change.row} |")]
    for place in change.places:
        names = [place.file, *map(str, Path(place.file).parents)]
        assert any(f"{name.removeprefix('tfoperator/')}" in row for name in names if "/" in name), place.file
