import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import no_threads_left
from tfoperator.controller.pods.scheduling_rules import AllowedNames
from tfoperator.operator import Options
from tfoperator.operator.options.config_watcher import ConfigWatcher
from tfoperator.operator.options.reading import parse_options

GPU = "accelerators: {nvidia.com/gpu: {env: [{name: GPU, value: '%s'}]}}\n"


class Bench:
    """A watched file. `applied` are the values of GPU that were passed on, None for a configuration without."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.file.write_text(GPU % "1")
        self.applied: list[str | None] = []
        self.queues: AllowedNames | None = None
        self.clock = FakeClock()
        options = parse_options([f"--config={file}"], {})
        self.watcher = ConfigWatcher(options, self._take, clock=self.clock)

    def _take(self, options: Options) -> None:
        accelerator = options.accelerators.get("nvidia.com/gpu")
        self.applied.append(None if accelerator is None else accelerator.env[0]["value"])
        self.queues = options.scheduling.queues

    def write(self, content: str) -> None:
        """Change the file as a ConfigMap's is changed: by another one taking its place."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(content)
        fresh.replace(self.file)

    def change(self, content: str) -> None:
        """Change the file, and let it be looked at."""
        self.write(content)
        self.look()

    def look(self) -> None:
        """Let the time come at which it looks, and wait until it has."""
        self.clock.pass_time(5.0)
        self.clock.wait_for_waiters()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with no_threads_left(within=0):
        watcher_bench = Bench(tmp_path / "operator.yaml")
        watcher_bench.watcher.start()
        yield watcher_bench
        watcher_bench.watcher.stop()


def test_a_change_is_passed_on_once_also_after_one_that_failed(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.look()
    assert bench.applied == []
    bench.change(GPU % "2")
    bench.look()
    assert bench.applied == ["2"]
    bench.change("")
    assert bench.applied == ["2", None]
    bench.applied = None  # type: ignore[assignment] # so that the call fails
    bench.change(GPU % "3")
    assert "failed unexpectedly" in caplog.text
    bench.applied = []
    bench.change(GPU % "4")
    assert bench.applied == ["4"]


def test_changed_rules_of_scheduling_are_passed_on_and_so_is_that_they_are_gone(bench: Bench) -> None:
    bench.change(GPU % "1" + "scheduling: {queues: {default: [slow]}}\n")
    assert (bench.applied, bench.queues) == (["1"], AllowedNames(("slow",)))
    bench.change(GPU % "1" + "scheduling: {queues: {default: }}\n")  # wrong: what was read before holds
    assert bench.applied == ["1"]
    bench.change(GPU % "1")
    assert (bench.applied, bench.queues) == (["1", "1"], AllowedNames(("*",)))


def test_a_file_that_is_wrong_or_gone_is_told_of_and_not_used(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.look()
    for content, complaint in (
        ("accelerators: {gpu: {}}", "not a name of an extended resource"),
        (None, "No such file"),
    ):
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
    assert bench.applied == []
    bench.change(GPU % "3")
    assert bench.applied == ["3"]


def test_other_options_that_change_wait_for_the_next_start(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.look()
    bench.change(GPU % "1" + "threadiness: 3\nlog-level: debug\n")
    assert bench.applied == []
    (record,) = caplog.records
    assert record.getMessage().endswith("used only after the next start: log_level, threadiness")


def test_a_change_that_can_not_be_read_at_first_is_passed_on_later(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.look()
    with monkeypatch.context() as broken:
        broken.setattr("tfoperator.base.yamldata.reader.read_value_of_file", stale)
        bench.change(GPU % "2")
        bench.look()
    bench.look()
    assert bench.applied == ["2"]
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def stale(*_: object) -> None:
    raise OSError(errno.ESTALE, "Stale file handle")
