"""The log of the embedded API server's HTTP library."""

from __future__ import annotations

import logging
from typing import Any

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

from tfoperator.servers.http.strangers_log import StrangersLog


class RequestsLog(StrangersLog):
    """Write one line for a request that is no HTTP, and the traceback of every other error.

    The library logs what clients send wrong as errors with a traceback. Any user of the machine can connect, so that
    would hide the errors of the server. The line has the kind of the mistake, and nothing that the client sent.
    Thread-safe.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a line unless there were too many."""
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError | RequestPayloadError):
            super().log(min(level, logging.INFO), "a client sent no valid HTTP: %s", type(error).__name__)
        else:
            super().log(level, msg, *args, **kwargs)
