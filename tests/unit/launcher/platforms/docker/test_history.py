from collections.abc import Iterator

import pytest

from tfoperator.launcher.platforms.docker.history import ContainerEvent, EndCause, cause_of_end

DIE = ContainerEvent("die")


def kill(number: int) -> ContainerEvent:
    return ContainerEvent("kill", number)


@pytest.mark.parametrize(
    ("events", "stop_signal", "cause"),
    [
        ([DIE], "", EndCause.ITSELF),
        ([kill(15), DIE], "", EndCause.STOPPED),
        ([kill(9), DIE], "", EndCause.STOPPED),
        ([kill(2), DIE], "", EndCause.STOPPED),
        ([kill(15), kill(9), DIE], "", EndCause.STOPPED),
        ([kill(10), DIE], "", EndCause.ITSELF),
        ([kill(1), DIE], "", EndCause.ITSELF),
        ([kill(1), DIE], "SIGHUP", EndCause.STOPPED),
        ([kill(10), DIE], "USR1", EndCause.STOPPED),
        ([kill(10), DIE], "10", EndCause.STOPPED),
        ([kill(37), DIE], "RTMIN+3", EndCause.ITSELF),
        ([kill(15), DIE], "RTMIN+3", EndCause.STOPPED),
        ([DIE, kill(15)], "", EndCause.ITSELF),
        ([DIE, kill(15), DIE], "", EndCause.ITSELF),
        ([], "", EndCause.UNKNOWN),
        ([kill(15)], "", EndCause.UNKNOWN),
        ([ContainerEvent("kill")], "", EndCause.UNKNOWN),
    ],
)
def test_a_signal_that_asks_to_end_before_the_end_is_its_cause(
    events: list[ContainerEvent], stop_signal: str, cause: EndCause
) -> None:
    assert cause_of_end(events, stop_signal) is cause


def test_nothing_is_read_after_the_end() -> None:
    def events() -> Iterator[ContainerEvent]:
        yield DIE
        raise AssertionError("read on")

    assert cause_of_end(events()) is EndCause.ITSELF
