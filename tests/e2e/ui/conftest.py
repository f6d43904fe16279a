"""A browser for all tests of a file, and the page on a stage of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from hack.chromium import running_chromium
from tests.support.browsing import Shown
from tests.support.cli import Cli


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def shown(browser: Browser) -> Iterator[Shown]:
    made = Shown(browser)
    yield made
    made.server.stop()


@pytest.fixture
def local(browser: Browser) -> Iterator[Shown]:
    """The page of this machine's own control plane."""
    made = Shown(browser, local=True)
    yield made
    made.server.stop()


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """The command line, with a control plane of its own."""
    cli = Cli(tmp_path, XDG_STATE_HOME=str(tmp_path / "state"))
    yield cli
    cli.run("local", "down", "--now")
