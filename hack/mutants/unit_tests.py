"""Runs the tests of a room that come to a change, the fast tests first, up to the first test that fails.

All tests of a room run once without a change, and the functions of the room to which each comes are kept. That is done
anew when a file of the room or of its tests has changed.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec
import pytest
from _pytest.config import default_plugins

from hack.mutants.changed import ROOT, Mutant, files_of, function_at, hash_of, import_changed, place_of

BESIDE: Mapping[str, tuple[str, ...]] = {
    "controller/plan": (
        "tests/unit/controller",
        "tests/unit/test_fuzz.py",
        "tests/unit/docs/test_first_documents.py",
        "tests/hack/test_usage_plans.py",
        "tests/hack/test_straggler_alarms.py",
        "tests/unit/reconciler",
    ),
    "local/apiserver": ("tests/contract",),
}
"""The tests of a room, and of the rooms in it, besides its mirror in tests/unit."""

LONGEST_RECORDING = 450.0
"""Seconds for all tests of a room, whose calls are counted."""

_LEAST, _MOST, _TIMES = 30.0, 600.0, 10
"""Seconds that the tests get with a change at least and at most, and how many times the seconds without a change."""

_LEAST_OF_A_TEST = 10.0
"""Seconds that a single test gets at least: a test that waits for an event that the change prevents notices it."""

_OPTIONS = (
    "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-seed", "0", "-m", "not full",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # of plugins that `prepare` has imported
)  # fmt: skip
_OF_ALL_TESTS = (
    "hypothesis", "hypothesis.stateful", "yaml", "aiohttp.web", "cryptography.x509", "rich.console", "psutil",
    "prometheus_client", "typer", "jsonpatch", "pytest_asyncio.plugin", "pytest_benchmark.plugin", "pytest_timeout",
    "sqlalchemy", "xdist.remote", "cachetools", "tenacity", "httptools", "jwt", "websocket",
    *(f"_pytest.{name}" for name in default_plugins),
)  # fmt: skip
"""Modules that are imported once for all: they are never changed, and take most of the time of a start."""


class Run(msgspec.Struct, frozen=True):
    """A test that passes: how long it takes, and the numbers of the functions to which it comes."""

    name: str
    seconds: float
    functions: tuple[int, ...]


class Recording(msgspec.Struct, frozen=True):
    """The tests of a room, and the functions of the room to which they come, as `FILE:LINE`."""

    source: str
    functions: tuple[str, ...]
    runs: tuple[Run, ...]
    failed: tuple[str, ...] = ()
    """The tests that fail without a change. They are left out."""


def prepare() -> None:
    """Import what tests need and no change is in."""
    for name in _OF_ALL_TESTS:
        importlib.import_module(name)


def mirror_of(room: str) -> list[str]:
    """Return the files and folders of a room's tests. Raises FileNotFoundError if it has none."""
    mirror = f"tests/unit/{room}"
    if room.endswith(".py"):
        folder, _, name = mirror.rpartition("/")
        mirror = f"{folder}/test_{name}" if (ROOT / folder / f"test_{name}").exists() else folder
    beside = (paths for inside, paths in BESIDE.items() if f"{room}/".startswith(f"{inside}/"))
    found = [path for path in (mirror, *chain(*beside)) if (ROOT / path).exists()]
    if not found:
        raise FileNotFoundError(f"{room} has no tests in {mirror}: name them in BESIDE of {__name__}")
    return found


def kept(folder: Path, room: str) -> Recording | None:
    """Return the recording of a room, if it was made of the present files."""
    file = _file(folder, room)
    try:
        recording = msgspec.json.decode(file.read_bytes(), type=Recording)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return recording if recording.source == _source(room) else None


def record(folder: Path, room: str) -> None:
    """Run all tests of a room, and keep where each comes. For a process of its own."""
    recorder = _Recorder(str(ROOT / "tfoperator" / room))
    with tempfile.TemporaryDirectory() as scratch:
        _pytest(scratch, [*mirror_of(room)], recorder)
    folder.mkdir(parents=True, exist_ok=True)
    _file(folder, room).write_bytes(msgspec.json.encode(recorder.recording(_source(room))))


def coming_to(mutant: Mutant, recording: Recording) -> list[Run]:
    """Return the tests that come to a change, the files that are done soonest first; all if it runs at import."""
    place = place_of(mutant)
    number = recording.functions.index(place) if place in recording.functions else -1
    runs = [run for run in recording.runs if not place or number in run.functions]
    whole: dict[str, float] = defaultdict(float)
    for run in runs:
        whole[_file_of(run)] += run.seconds
    return sorted(runs, key=lambda run: (whole[_file_of(run)], _file_of(run), run.seconds))


def seconds_for(runs: Sequence[Run]) -> float:
    """Return how long these tests may take with a change."""
    return min(max(_LEAST, _TIMES * sum(run.seconds for run in runs)), _MOST)


def notice(mutant: Mutant, runs: Sequence[Run]) -> str:
    """Run these tests with the change, and return the first that fails; "" if none does. For a process of its own."""
    import_changed(mutant.path, mutant.number)
    chosen = _Chosen(runs)
    with tempfile.TemporaryDirectory() as scratch:
        code = _pytest(scratch, ["-x", *dict.fromkeys(map(_file_of, runs))], chosen)
    return chosen.failed or (f"pytest ends with {code}" if code else "")


def _pytest(scratch: str, arguments: list[str], plugin: object) -> int:
    """Hypothesis keeps no examples of one change for another."""
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = f"{scratch}/hypothesis"
    return int(pytest.main([*_OPTIONS, f"--basetemp={scratch}/pytest", *arguments], plugins=[plugin]))


def _file_of(run: Run) -> str:
    return run.name.partition("::")[0]


def _file(folder: Path, room: str) -> Path:
    return folder / f"{room.replace('/', '-')}.json"


def _source(room: str) -> str:
    """Return a hash of the room and of its tests."""
    return hash_of(files_of([f"tfoperator/{room}", *mirror_of(room), "tests/support", "tests/conftest.py"]))


class _Recorder:
    """A plugin of pytest that notes the functions to which each test comes, in whatever thread."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._codes: set[CodeType] = set()
        self._of_fixtures: dict[str, set[CodeType]] = defaultdict(set)
        self._runs: dict[str, tuple[float, set[str]]] = {}
        self._failed: dict[str, None] = {}
        self._places: dict[CodeType, str] = {}

    def recording(self, source: str) -> Recording:
        """Return what was noted."""
        runs = {name: run for name, run in self._runs.items() if name not in self._failed}
        functions = sorted({place for _, places in runs.values() for place in places})
        number = {place: at for at, place in enumerate(functions)}
        tests = (
            Run(name, round(seconds, 3), tuple(number[place] for place in sorted(places)))
            for name, (seconds, places) in runs.items()
        )
        return Recording(source, tuple(functions), tuple(tests), tuple(self._failed))

    def pytest_collection_finish(self) -> None:
        """Begin to note."""

        def note(frame: FrameType, _event: str, _argument: object) -> None:
            add(frame.f_code)

        add = self._codes.add
        threading.settrace(note)
        sys.settrace(note)

    def pytest_sessionfinish(self) -> None:
        """Note nothing more."""
        sys.settrace(None)
        threading.settrace(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note the functions that a test calls, and the calls of fixtures that it shares with other tests."""
        self._codes.clear()
        began = time.monotonic()
        result = yield
        fixtures = (self._of_fixtures[name] for name in getattr(item, "fixturenames", ()))
        codes = self._codes.union(*fixtures)
        self._runs[item.nodeid] = time.monotonic() - began, set(self._places_of(codes))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Note what a fixture calls that is made once for several tests."""
        before = self._codes.copy()
        self._codes.clear()
        result = yield
        if fixturedef.scope != "function":
            self._of_fixtures[fixturedef.argname] |= self._codes
        self._codes |= before
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails."""
        if report.failed:
            self._failed[report.nodeid] = None

    def _places_of(self, codes: set[CodeType]) -> Iterator[str]:
        for code in codes:
            if code not in self._places:
                self._places[code] = self._place_of(code)
            if place := self._places[code]:
                yield place

    def _place_of(self, code: CodeType) -> str:
        """Comprehensions and lambdas count as the function that they are in."""
        if not code.co_filename.startswith(self._root):
            return ""
        path = code.co_filename.removeprefix(f"{ROOT}/")
        line = function_at(path, code.co_firstlineno)
        return f"{path}:{line}" if line else ""


class _Chosen:
    """A plugin of pytest that runs these tests alone, in this order, and notes the first that fails."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._order = {run.name: at for at, run in enumerate(runs)}
        self._seconds = {run.name: max(_LEAST_OF_A_TEST, _TIMES * run.seconds) for run in runs}
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others, and limit the time of each."""
        chosen = [item for item in items if item.nodeid in self._order]
        for item in chosen:
            item.add_marker(pytest.mark.timeout(self._seconds[item.nodeid]), append=False)
        items[:] = sorted(chosen, key=lambda item: self._order[item.nodeid])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that can't be imported."""
        self._note(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails."""
        self._note(report)

    def _note(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid
