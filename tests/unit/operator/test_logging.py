import json
import logging
import sys

import pytest

from tests.support.eventually import eventually
from tfoperator.operator.logging import JsonFormatter, TextFormatter
from tfoperator.workqueue import Workers
from tfoperator.workqueue.queue import Queue


def record(message: str, *, job: str = "", error: bool | str = False) -> logging.LogRecord:
    info = None
    if error:
        try:
            raise RuntimeError("broken" if error is True else error)
        except RuntimeError:
            info = sys.exc_info()
    made = logging.LogRecord("tfoperator.controller.execute.executor", logging.INFO, "x.py", 1, message, (), info)
    made.created = 1_767_268_800.25
    if job:
        made.job = job
    return made


def test_a_text_line_has_time_level_place_job_and_message_and_a_traceback_follows_it() -> None:
    line = TextFormatter().format(record("is now Running", job="ns/mnist"))
    assert line == "2026-01-01T12:00:00.250Z INFO    controller ns/mnist: is now Running"
    assert "\n" not in TextFormatter().format(record("two\nlines"))
    assert "\n" not in JsonFormatter().format(record("two\nlines", error=True))
    assert "RuntimeError: broken" in TextFormatter().format(record("failed", error=True))


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_no_line_controls_a_terminal(formatter: logging.Formatter) -> None:
    """Names and messages of strangers get into log lines, and log lines onto terminals."""
    hostile = "\x1b]0;title\x07\x1b[2J\x9b2J\x85\x7f\r"
    line = formatter.format(record(f"refused: {hostile}", job=f"ns/{hostile}", error=hostile))
    assert not [c for c in line if not c.isprintable() and c != "\n"]
    assert "title" in line


def test_a_json_line_has_the_same_facts() -> None:
    entry = json.loads(JsonFormatter().format(record("is now Running", job="ns/mnist")))
    assert entry == {
        "time": "2026-01-01T12:00:00.250Z",
        "level": "info",
        "logger": "tfoperator.controller.execute.executor",
        "message": "is now Running",
        "namespace": "ns",
        "name": "mnist",
    }
    assert "broken" in json.loads(JsonFormatter().format(record("x", error=True)))["error"]


def test_json_lines_of_one_sync_share_an_id_and_others_have_none() -> None:
    def reconcile_ids() -> list[str | None]:
        return [json.loads(JsonFormatter().format(record("created service"))).get("reconcileID") for _ in range(2)]

    ids: list[list[str | None]] = []
    queue = Queue[str]()
    for item in ("first", "second"):
        queue.add(item)
    workers = Workers(queue, lambda _: ids.append(reconcile_ids()), 1, thread_name="w")
    workers.start()
    eventually(lambda: len(ids) == 2)
    assert workers.stop(60)
    (first, same), (other, _) = ids
    assert first == same != other
    assert None not in (first, other)
    assert reconcile_ids() == [None, None]
