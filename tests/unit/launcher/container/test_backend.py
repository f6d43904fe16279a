import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.eventually import eventually
from tests.unit.logs.lines.test_lines import stamp
from tfoperator.base.clock import StopSignal, SystemClock
from tfoperator.launcher.container.backend import Launch, LogForwarder, Mailbox
from tfoperator.launcher.core.context import LaunchContext
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.logs.lines.reader import LogCut, NoLog


def test_lines_of_several_replicas_are_told_one_at_a_time(tmp_path: Path) -> None:
    """A line that another cut in two would belong to neither."""
    lines: list[str] = []
    within = 0
    overlaps = threading.Event()

    def log(line: str) -> None:
        nonlocal within
        within += 1
        if within > 1:
            overlaps.set()
        overlaps.wait(0.05)  # so that another comes in between, if it can
        lines.append(line)
        within -= 1

    context = LaunchContext(log=log)
    launch = Launch("step", "r", context, StopSignal(), WorkDirectory(tmp_path), Mailbox(context.clock))
    forwarders = [
        launch.forward_log(
            f"pod-{number}",
            lambda _: Source([f"{stamp(1)} a\n{stamp(1, 1)} b\n".encode()], blocks=True),
            prefix=f"[{number}] ",
            key=f"-{number}",
        )
        for number in range(3)
    ]
    eventually(lambda: len(lines) == 6, what="all lines are told")
    for forwarder in forwarders:
        forwarder.finish(0.1)
    assert sorted(lines) == [f"[{number}] {text}" for number in range(3) for text in "ab"]
    assert not overlaps.is_set()


class Source:
    def __init__(self, items: list[bytes | Exception], blocks: bool = False) -> None:
        self._items = items
        self._closed = threading.Event()
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        for item in self._items:
            if isinstance(item, Exception):
                raise item
            yield item
        if self._blocks:
            self._closed.wait(20)

    def close(self) -> None:
        self._closed.set()


def follower(connect: Callable[[str], Source], lines: list[str], keep: Callable[[str], None] = str) -> LogForwarder:
    forwarder = LogForwarder("pod", connect, lines.append, clock=SystemClock(), keep=keep)
    forwarder.start()
    return forwarder


def test_a_cut_connection_loses_and_doubles_nothing() -> None:
    chunks = [f"{stamp(1)} one\n".encode(), f"{stamp(1, 1)} two\n{stamp(1, 2)} thr".encode()]
    whole = f"{stamp(1)} one\n{stamp(1, 1)} two\n{stamp(1, 2)} three\n".encode()
    answers = [Source([*chunks, LogCut("reset")]), Source([whole], blocks=True)]
    asked: list[str] = []
    lines: list[str] = []
    kept: list[str] = []

    def connect(since: str) -> Source:
        asked.append(since)
        return answers[min(len(asked), 2) - 1]

    forwarder = follower(connect, lines, kept.append)
    eventually(lambda: lines[-1:] == ["three"])
    forwarder.finish(0.1)
    assert lines == ["one", "two", "three"]
    assert asked[:2] == ["", "2025-12-31T23:59:59Z"]
    assert kept[-1] == stamp(1, 2)


def test_what_is_written_last_is_told_although_the_answer_had_ended_before() -> None:
    lines: list[str] = []
    texts = [b"", b"early\n"]
    forwarder = follower(lambda _: Source([b"".join(texts)]), lines)
    eventually(lambda: lines == ["early"])
    texts.append(b"last words without an end")
    forwarder.finish()
    assert lines == ["early", "last words without an end"]


def test_a_log_that_can_not_be_read_or_does_not_end_holds_up_nothing() -> None:
    def refuse(_: str) -> Source:
        raise NoLog("403")

    def cut(_: str) -> Source:
        raise LogCut("not yet")

    def bug(_: str) -> Source:
        raise RuntimeError("bug")

    for connect in (refuse, cut, bug):
        follower(connect, []).finish(0.1)
    follower(lambda _: Source([b"a\n"], blocks=True), []).finish(0.1)
