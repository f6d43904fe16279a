"""The unit tests of the first house, client-go in Python, pass where nothing else of the project is installed.

The house is the lowest floor of the contract `houses` in setup.cfg. It is copied, with its tests, into a folder of its
own, and runs in an environment that has only the distributions that docs/houses/client-go.md lists, and the test tools.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import venv
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/houses/client-go.md"
TEST_TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis")


def packages() -> list[str]:
    """The packages of the house, without the name of the project in front."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    lowest = config["importlinter:contract:houses"]["layers"].strip().splitlines()[-1]
    return [name.strip().removeprefix("tfoperator.") for name in lowest.split(":")]


def listed() -> set[str]:
    """The distributions that the page lists, by their normal names."""
    table = PAGE.read_text().partition("## Dependencies")[2].partition("\n## ")[0]
    return {canonicalize_name(name) for name in re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)}


def imported() -> set[str]:
    """The distributions of all modules that the house imports from elsewhere, also inside functions."""
    files = [path for package in packages() for path in (ROOT / "tfoperator" / package).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    modules = {name.partition(".")[0] for name in names} - {"tfoperator"} - sys.stdlib_module_names
    providers = metadata.packages_distributions()
    return {canonicalize_name(providers[module][0]) for module in modules}


def with_their_own(names: set[str]) -> set[str]:
    """These distributions, and all that they need on this machine."""
    distributions: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        distributions.add(name)
        needs = [Requirement(text) for text in metadata.requires(name) or ()]
        required = {
            canonicalize_name(requirement.name)
            for requirement in needs
            if not requirement.marker or requirement.marker.evaluate({"extra": ""})
        }
        waiting |= required - distributions
    return distributions


def environment(folder: Path, distributions: set[str]) -> str:
    """Make an environment that has only these distributions, as links to this environment's; return its Python."""
    venv.create(folder, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    for name in distributions:
        for file in metadata.files(name) or ():
            first = file.parts[0]
            if first not in ("..", "__pycache__") and not (site / first).exists():
                (site / first).symlink_to(Path(str(metadata.distribution(name).locate_file(first))))
    return str(folder / "bin/python")


def copy_of_the_house(folder: Path) -> None:
    (folder / "tfoperator").mkdir(parents=True)
    shutil.copy(ROOT / "tfoperator/__init__.py", folder / "tfoperator")
    shutil.copytree(ROOT / "tests/support", folder / "tests/support", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "hack").mkdir()  # of which the fake API server of the tests needs one file
    for name in ("__init__.py", "sequential_client.py"):
        shutil.copy(ROOT / "hack" / name, folder / "hack" / name)
    (folder / "tests/unit").mkdir()
    for name in ("tests/__init__.py", "tests/unit/__init__.py", "tests/unit/conftest.py", "pyproject.toml"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    for package in packages():
        for place in ("tfoperator", "tests/unit"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / place / package, folder / place / package, ignore=ignored)


def test_the_page_lists_what_the_house_imports() -> None:
    assert listed() == imported()


@pytest.mark.timeout(600)
def test_the_houses_tests_pass_alone(tmp_path: Path) -> None:
    python = environment(tmp_path / "environment", with_their_own({*listed(), *TEST_TOOLS}))
    house = tmp_path / "house"
    copy_of_the_house(house)
    missing = subprocess.run([python, "-c", "import tfoperator.api"], cwd=house, capture_output=True, timeout=60)
    assert b"No module named 'tfoperator.api'" in missing.stderr
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not full", "tests/unit"]
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=house, capture_output=True, text=True, env=variables, timeout=500)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 500
