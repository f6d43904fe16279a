"""Formats log lines as text or as JSON. A line about a job contains the job's namespace and name.

The code that logs such a line passes `extra={"job": "namespace/name"}`. The lines go to stderr only. A line may contain
text from untrusted sources (a name, a message), but it never contains a character that controls a terminal.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

from tfoperator.base.controlchars import json_text, printable
from tfoperator.workqueue import PROCESSING_ID


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """Formats lines like `2026-01-01T12:00:00.000Z INFO  controller ns/job: is now Running`.

    Line breaks in a message become spaces.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line. If there is a traceback, it follows on separate lines."""
        job = getattr(record, "job", "")
        message = " ".join(record.getMessage().splitlines())
        where = record.name.removeprefix("tfoperator.").partition(".")[0]
        line = f"{_time(record)} {record.levelname:<7} {where} {f'{job}: ' if job else ''}{message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return printable(line)


class JsonFormatter(logging.Formatter):
    """Formats each line as a JSON object with `time`, `level`, `logger`, `message` and further fields.

    `namespace` and `name` are the namespace and the name of the job. `reconcileID` is the same in all lines of one
    sync. `error` is a traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON. Line breaks in the message are escaped."""
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if job := getattr(record, "job", ""):
            entry["namespace"], _, entry["name"] = job.partition("/")
        if sync := PROCESSING_ID.get():
            entry["reconcileID"] = sync
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json_text(entry)


def configure_logging(log_format: str = "text", level: str = "info") -> None:
    """Send all log records of the process with at least this level to stderr, in this format (`text` or `json`)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
