"""A browser for all tests of a file, and the page on a stage of its own for each."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from hack.chromium import running_chromium
from tests.support.browsing import Shown


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as chromium:
        yield chromium


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
