"""The runs of a replica before the run that a page finds when it is opened."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.stage import Stage
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.sdk.logs.run_log import ContainerRun
from tfoperator.ui.jobs.earlier_runs import Attempts, earlier_lines
from tfoperator.ui.jobs.objects import SeenPod

POD = SeenPod(metadata=ObjectMeta(namespace="ns", name="mnist-worker-0", uid="new"))
CONTAINER = ("ns", "mnist-worker-0", "tensorflow")


def earlier_runs(
    attempts: Attempts | None, restarts: int, client: Any = None, tail: int = 10
) -> list[tuple[str, int, list[str]]]:
    run = ContainerRun("new", "tensorflow", restarts)
    return [(line.uid, line.restarts, line.lines) for line in earlier_lines(client, attempts, POD, run, tail)]


def write(logs: LogStore, text: str, owner: str) -> LogFile:
    log = logs.open(*CONTAINER, owner=owner)
    log.path.write_text(text)
    return log


@pytest.fixture
def logs(tmp_path: Path) -> LogStore:
    """Two runs of an earlier pod, and three of the present pod."""
    store = LogStore(tmp_path)
    for text, owner in (("a\n", "old"), ("b\nc", "old"), ("d\n", "new"), ("e\nf\ng\n", "new"), ("now\n", "new")):
        write(store, text, owner)
    return store


def test_each_run_before_the_present_one_is_read_the_oldest_first(logs: LogStore) -> None:
    before = [("old", 0, ["a"]), ("old", 1, ["b", "c"]), ("new", 0, ["d"]), ("new", 1, ["e", "f", "g"])]
    assert earlier_runs(logs.attempts, 2) == before
    assert earlier_runs(logs.attempts, 2, tail=1) == [(uid, number, lines[-1:]) for uid, number, lines in before]


def test_a_run_that_begins_meanwhile_is_no_earlier_one(logs: LogStore) -> None:
    """The page has seen the pod before its last restart: that run's log is read as the present log."""
    assert [lines for _, _, lines in earlier_runs(logs.attempts, 1)] == [["a"], ["b", "c"], ["d"]]


def test_logs_of_a_run_that_is_over_do_not_have_their_pods(logs: LogStore, tmp_path: Path) -> None:
    kept = LogStore(tmp_path)
    kept.reopen()
    assert [run[:2] for run in earlier_runs(kept.attempts, 2)] == [("gone", 0), ("gone", 1), ("new", 0), ("new", 1)]


def test_hundreds_of_runs_and_a_file_that_is_gone_or_a_link_are_bounded(logs: LogStore, tmp_path: Path) -> None:
    for number in range(100):
        write(logs, f"{number}\n", "new")
    logs.attempts(*CONTAINER)[-3].path.unlink()
    logs.attempts(*CONTAINER)[-4].path.unlink()
    logs.attempts(*CONTAINER)[-4].path.symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret\n")
    read = [lines for _, _, lines in earlier_runs(logs.attempts, 102)]
    assert read == [[str(number)] for number in range(79, 99) if number not in (96, 97)]


def test_a_long_log_comes_in_batches(logs: LogStore) -> None:
    log = logs.attempts(*CONTAINER)[3]
    log.path.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(10_000)))
    batches = [lines for uid, number, lines in earlier_runs(logs.attempts, 2, tail=9000) if (uid, number) == ("new", 1)]
    assert len(batches) > 1
    lines = [line.split(" x")[0] for batch in batches for line in batch]
    assert lines == [f"line {number}" for number in range(1000, 10_000)]


@pytest.mark.parametrize(("restarts", "lines"), [(0, []), (1, [("new", 0, ["x", "y"])]), (3, [("new", 2, ["x", "y"])])])
def test_an_api_server_has_the_run_before(restarts: int, lines: Sequence[Any]) -> None:
    stage = Stage()
    stage.logs["mnist-worker-0 before"].write("x\ny\n")
    assert earlier_runs(None, restarts, stage) == lines


def test_a_run_whose_log_the_kubelet_has_removed_is_left_out() -> None:
    assert earlier_runs(None, 1, Stage()) == []
