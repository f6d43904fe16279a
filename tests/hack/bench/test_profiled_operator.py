import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from hack.bench.profiled_operator import Calls, main

one_thread_at_a_time = sys.version_info >= (3, 12)


def step() -> None:
    len("abc")


def work(times: int) -> None:
    for _ in range(times):
        step()


def run_workers() -> None:
    threads = [threading.Thread(target=work, args=(times,), name=f"worker-{times}") for times in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.skipif(one_thread_at_a_time, reason="this Python counts the calls of one thread at a time")
def test_the_operator_gets_its_flags_and_the_table_is_written_when_it_has_ended(tmp_path: Path) -> None:
    target, seen = tmp_path / "profiles" / "calls.txt", []

    def run(flags: Sequence[str]) -> int:
        seen.extend(flags)
        run_workers()
        return 3

    assert main([str(target), "--threadiness=2"], run) == 3
    assert seen == ["--threadiness=2"]
    [line] = [line for line in target.read_text().splitlines() if line.endswith(" step")]
    assert line.split()[0] == "7"


@pytest.mark.skipif(not one_thread_at_a_time, reason="this Python counts the calls of all threads")
def test_a_python_that_can_not_says_so() -> None:
    with pytest.raises(RuntimeError, match="up to Python"), Calls().counting():
        pass
