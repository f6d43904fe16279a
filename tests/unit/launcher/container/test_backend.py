from __future__ import annotations

import threading
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.threads import no_threads_left
from tests.unit.launcher.container.test_log_forwarder import Source
from tests.unit.logs.lines.test_lines import stamp
from tfoperator.base.clock import StopSignal
from tfoperator.launcher.container.backend import Launch
from tfoperator.launcher.core import LaunchContext, WorkDirectory


def test_lines_of_several_replicas_are_told_one_at_a_time(tmp_path: Path) -> None:
    """A line that another cut in two would belong to neither."""
    told: list[str] = []
    within = 0
    overlaps = threading.Event()

    def log(line: str) -> None:
        nonlocal within
        within += 1
        if within > 1:
            overlaps.set()
        overlaps.wait(0.05)  # so that another comes in between, if it can
        told.append(line)
        within -= 1

    launch = Launch("step", "r", LaunchContext(log=log), StopSignal(), WorkDirectory(tmp_path))
    with no_threads_left():
        forwarders = [
            launch.forward_log(
                f"pod-{number}",
                lambda _: Source([f"{stamp(1)} a\n{stamp(1, 1)} b\n".encode()], blocks=True),
                prefix=f"[{number}] ",
                key=f"-{number}",
            )
            for number in range(3)
        ]
        eventually(lambda: len(told) == 6, what="all lines are told")
        for one in forwarders:
            one.finish(0.1)
    assert sorted(told) == [f"[{number}] {text}" for number in range(3) for text in "ab"]
    assert not overlaps.is_set()
