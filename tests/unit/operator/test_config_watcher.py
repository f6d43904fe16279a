from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tfoperator.controller import Accelerator
from tfoperator.operator import parse_options
from tfoperator.operator.config_watcher import ConfigWatcher

GPU = "accelerators: {nvidia.com/gpu: {env: [{name: GPU, value: '%s'}]}}\n"


class Bench:
    """A watched file. `told` are the values of GPU that were passed on, None for a configuration without."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.file.write_text(GPU % "1")
        self.told: list[str | None] = []
        self.clock = FakeClock()
        options = parse_options([f"--config={file}"], {})
        self.watcher = ConfigWatcher(options, self._take, period=5.0, clock=self.clock)

    def _take(self, accelerators: Mapping[str, Accelerator]) -> None:
        one = accelerators.get("nvidia.com/gpu")
        self.told.append(None if one is None else one.env[0]["value"])

    def write(self, content: str) -> None:
        """Change the file as a ConfigMap's is changed: by another one taking its place."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(content)
        fresh.replace(self.file)

    def look(self) -> None:
        """Let the time come at which it looks, and wait until it has."""
        self.clock.wait_for_waiters()
        self.clock.advance(5.0)
        self.clock.wait_for_waiters()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    before = set(threading.enumerate())
    one = Bench(tmp_path / "operator.yaml")
    one.watcher.start()
    yield one
    one.watcher.stop()
    assert set(threading.enumerate()) <= before


def test_a_change_is_passed_on_once(bench: Bench) -> None:
    bench.look()
    assert bench.told == []
    bench.write(GPU % "2")
    bench.look()
    bench.look()
    assert bench.told == ["2"]
    bench.write("")
    bench.look()
    assert bench.told == ["2", None]


def test_a_change_between_reading_the_options_and_the_first_look_is_not_lost(bench: Bench) -> None:
    bench.write(GPU % "2")
    bench.look()
    assert bench.told == ["2"]


def test_a_file_that_is_wrong_or_gone_changes_nothing_and_is_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.look()
    for content, complaint in (("accelerators: {gpu: {}}", "no name of an extended resource"), (None, "No such file")):
        caplog.clear()
        if content is None:
            bench.file.unlink()
        else:
            bench.write(content)
        bench.look()
        bench.look()
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert complaint in record.getMessage()
    assert bench.told == []
    bench.write(GPU % "3")
    bench.look()
    assert bench.told == ["3"]


def test_other_options_that_change_are_named_since_they_wait_for_the_next_start(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.look()
    bench.write(GPU % "1" + "threadiness: 3\nlog-level: debug\n")
    bench.look()
    assert bench.told == []
    (record,) = caplog.records
    assert record.getMessage().endswith("used from the next start on: log_level, threadiness")


def test_it_goes_on_when_the_one_who_is_told_fails(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.told = None  # type: ignore[assignment] # so that telling fails
    bench.write(GPU % "2")
    bench.look()
    assert "failed unexpectedly" in caplog.text
    bench.told = []
    bench.write(GPU % "3")
    bench.look()
    assert bench.told == ["3"]
