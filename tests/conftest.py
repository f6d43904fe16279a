"""Settings and fixtures for all tests."""

import re
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from hack import debian, postgres

_REAL = re.compile(r"[\[-]real[\]-]")
"""In the name of a test of the contract: the parameter that is a real API server, which takes some 10 s to start."""


def pytest_configure() -> None:
    """See to what the machine and the shell must not decide."""
    _let_interrupts_through()
    # How fast examples come is no property of the tested code: a clone's very first example builds a table of Unicode.
    too_slow = [*settings.default.suppress_health_check, HealthCheck.too_slow]
    settings.register_profile("tests", settings.default, deadline=None, suppress_health_check=too_slow)
    settings.load_profile("tests")


def pytest_report_header() -> str:
    """Say what `make test` leaves out on this machine."""
    return "" if _has_chromium() else "no Chromium is unpacked (make controlplane): `make test` leaves the page out"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out, and begin with what takes longest."""
    for item in items:
        if _group(item.nodeid) == "cluster":
            item.add_marker(pytest.mark.controlplane)
        if _is_full(item):
            item.add_marker(pytest.mark.full)
    trains = {item.path for item in items if item.get_closest_marker("tensorflow")}
    early = {"cluster": 0, "docker": 1}
    items.sort(key=lambda item: early.get(_group(item.nodeid), 2 if item.path in trains else 3))


def _is_full(item: pytest.Item) -> bool:
    """Whether it needs more than pip installs, or is of a cluster or from end to end, and not a journey."""
    if item.get_closest_marker("controlplane"):
        return True
    if item.get_closest_marker("page"):
        return not _has_chromium()
    if item.get_closest_marker("postgresql"):
        return not postgres.is_installed()
    folder = item.nodeid.split("/")[1]
    return folder not in ("unit", "contract", "hack") and item.get_closest_marker("journey") is None


def _has_chromium() -> bool:
    try:
        return debian.find(debian.CHROMIUM).is_dir()
    except debian.PackageError:
        return False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """For pytest-xdist: what is done by one worker. `loadgroup` would do, but does nothing with pytest 9."""
    return _GroupScheduling(config, log)


class _GroupScheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid)


def _group(nodeid: str) -> str:
    """Return a test's group: tests of a group follow each other in one worker. A group is a file, whose fixtures are
    made once, or all files that share the one cluster, the one Docker engine, or the control plane of the contract.
    """
    file = nodeid.partition("::")[0]
    if file.startswith("tests/cluster/"):
        return "cluster"
    if file.startswith("tests/contract/") and _REAL.search(nodeid):
        return "contract"
    return "docker" if "docker" in file.rpartition("/")[2] else file


def _let_interrupts_through() -> None:
    """Let Ctrl-C reach the commands that tests start.

    A shell starts its background jobs (`make test &`) with SIGINT ignored, and children inherit that: tests that
    interrupt a command would then wait for ever. A handler is not inherited, so children start with the default.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
