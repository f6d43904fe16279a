import logging

import pytest

from tests.support.clock import FakeClock
from tfoperator.servers.http.strangers_log import LINES, LINES_PER_SOURCE, StrangersLog


@pytest.mark.parametrize(("sources", "let_through"), [(1, LINES_PER_SOURCE), (3, 3 * LINES_PER_SOURCE), (200, LINES)])
def test_of_a_flood_a_few_lines_a_minute_are_written_and_the_rest_is_counted(
    sources: int, let_through: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    log = StrangersLog(logging.getLogger("flood"), monotonic=clock.monotonic)
    for number in range(sources * 50):
        log.warning("bad %d", number, source=f"10.0.0.{number % sources}")
    assert len(caplog.records) == let_through
    clock.advance(61)
    log.error("another", source="10.0.0.0")
    counted, last = caplog.records[let_through:]
    assert counted.getMessage().startswith(f"{sources * 50 - let_through} log lines ")
    assert (last.getMessage(), last.levelno) == ("another", logging.ERROR)
    clock.advance(61)
    log.warning("later")
    assert caplog.records[let_through + 2 :] == caplog.records[-1:], "nothing was left out since"


def test_who_asks_for_every_line_gets_every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log = StrangersLog(logging.getLogger("flood"))
    for number in range(2 * LINES):
        log.debug("bad %d", number)
    assert len(caplog.records) == 2 * LINES
