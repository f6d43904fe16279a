"""The pages of the four houses name the packages of the contract, and the example of the first page runs."""

import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.support.jobs import write_kubeconfig
from tests.support.served import ServedWorld, served, world
from tests.unit.docs.test_pages import blocks

__all__ = ["served", "world"]

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/houses/client-go.md"
BEFORE = """
import builtins, time
printed = []
builtins.print = lambda *words: printed.append(" ".join(words))
"""
AFTER = """
from tfoperator.kube.views.objects import decode_nothing
client.create(CONFIG_MAPS, "default", {"metadata": {"name": "new"}}, decode_nothing)
deadline = time.monotonic() + 20
while not any(line.startswith("default/new has version") for line in printed):
    assert time.monotonic() < deadline, printed
    time.sleep(0.01)
assert workers.stop(10) and factory.stop()
client.close()
"""


def in_the_contract() -> list[set[str]]:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    floors = config["importlinter:contract:houses"]["layers"].strip().splitlines()
    return [set(re.findall(r"tfoperator\.(\w+)", floor)) for floor in floors]


def in_the_picture() -> list[set[str]]:
    rows = re.findall(r"^\| \[[^|]*\| ([^|]*) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    return [set(re.findall(r"`(\w+)`", row)) for row in rows]


def test_the_table_of_the_houses_is_the_contract() -> None:
    *upper, shared, lowest = in_the_contract()
    assert in_the_picture() == [*upper, lowest]
    assert shared == {"api", "logs", "report", "object_store", "progress"}


def test_the_first_house_imports_nothing_else_of_the_project() -> None:
    lowest = in_the_contract()[-1]
    files = [path for package in lowest for path in (ROOT / "tfoperator" / package).rglob("*.py")]
    imported = {name for file in files for name in re.findall(r"\b(?:from|import) tfoperator\.(\w+)", file.read_text())}
    assert imported <= lowest


@pytest.mark.usefixtures("world")
def test_the_example_of_a_controller_runs(world: ServedWorld, tmp_path: Path) -> None:
    [program] = blocks(PAGE, "python")
    kubeconfig = write_kubeconfig(tmp_path / "config", world.server.kubeconfig(), "default")
    command = [sys.executable, "-c", BEFORE + program + AFTER]
    done = subprocess.run(
        command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
