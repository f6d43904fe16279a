"""Where a program waits, as Python's faulthandler writes its stacks."""

import pytest

from tests.unit.report.test_report import replica, report, run, text
from tfoperator.report.facts import FinalState
from tfoperator.report.stack_text import waits_at

OTHER = ["Thread 0x00007f9d28cf26c0 (most recent call first):", '  File "/home/me/sender.py", line 89 in _run', ""]
CURRENT = [
    "Current thread 0x00007f9d2a20eb80 (most recent call first):",
    '  File "/usr/lib/python3.11/threading.py", line 629 in wait',
    '  File "/home/me/hang.py", line 6 in wait_for_the_other',
    '  File "/home/me/hang.py", line 10 in <module>',
    "",
]
EARLIER = [line.replace("line 6", "line 5") for line in CURRENT]


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([*OTHER, *CURRENT], "/home/me/hang.py, line 6, in wait_for_the_other"),
        (
            ["Stacks at 12:00", *EARLIER, "Stacks at 12:01", *OTHER, *CURRENT],
            "/home/me/hang.py, line 6, in wait_for_the_other",
        ),
        ([*CURRENT, *OTHER], "/home/me/hang.py, line 6, in wait_for_the_other"),
        (CURRENT[:2], ""),
        (OTHER, ""),
        ([], ""),
    ],
)
def test_the_innermost_call_of_the_users_own_in_the_newest_stack(lines: list[str], place: str) -> None:
    assert waits_at(lines) == place


def test_a_report_has_the_place_beside_the_stacks() -> None:
    stuck = replica(
        "worker-1", FinalState.STOPPED, run(143, 9, stopped=True), stacks="0.stacks.txt", waits_at="a.py, line 6"
    )
    shown = text(report(stuck, outcome="TimedOut", stalled="TFJob job has stalled."))
    assert "  worker-1: 0.stacks.txt\n    it was in a.py, line 6\n" in shown
