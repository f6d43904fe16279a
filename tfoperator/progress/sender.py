"""Sends reports from its own thread.

The thread sends at most one report in five seconds, and the last report at the end. A training step must not wait for
the network. So `put` only stores the report for the thread. If a report has not been sent, the next report replaces the
values that both contain. Each error is logged once, and has no other effect.
"""

from __future__ import annotations

import atexit
import http.client
import json
import logging
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tfoperator.progress import stacks

logger = logging.getLogger("tfoperator.progress")

URL_VARIABLE = "KUBEFLOW_TRAINER_SERVER_URL"
CA_VARIABLE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
TOKEN_VARIABLE = "KUBEFLOW_TRAINER_SERVER_TOKEN"

INTERVAL = 5.0
"""Seconds between two reports of a process. The clients of Kubeflow Trainer use the same value."""

TIMEOUT = 5.0
"""The maximum number of seconds for which the sender waits for a response."""

_EXACT = 2**53
"""All whole numbers below this value are exact as a float."""

_MAX_METRICS, _MAX_TEXT = 256, 64
"""The server's limits: the number of metrics in a report, and the characters of a metric's name and of its value."""


class Sender:
    """Sends reports to one URL.

    Thread-safe. The sender's thread starts with the first report, and is a daemon thread.
    """

    def __init__(self, url: str, ca_file: str, token_file: str, *, interval: float = INTERVAL) -> None:
        self._url = url
        self._ca_file = ca_file
        self._token_file = token_file
        self._interval = interval
        self._changed = threading.Condition()  # guards all fields below except _complaint, which only the thread uses
        self._next: dict[str, Any] | None = None
        self._hurry = False
        self._sending = False
        self._attempts = 0
        self._tried_at = float("-inf")
        self._thread: threading.Thread | None = None
        self._complaint = ""

    def put(self, status: Mapping[str, Any], *, at_once: bool = False) -> None:
        """Give a report to the sending thread. The call does not wait until the report is sent.

        With `at_once`, the thread sends the report before the interval since the last report is over.
        """
        with self._changed:
            self._next = _merged(self._next or {}, status)
            self._hurry = self._hurry or at_once
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="progress-reports", daemon=True)
                self._thread.start()
                stacks.register()  # a program that reports can also write its stacks when it hangs
            self._changed.notify_all()

    def flush(self, timeout: float = TIMEOUT) -> bool:
        """Send the pending report now, with a single attempt. Return whether it arrived within `timeout` seconds.

        Return True if no report is pending.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            if self._next is None and not self._sending:
                return True
            self._hurry = self._next is not None
            attempts = self._attempts + int(self._sending) + int(self._next is not None)
            self._changed.notify_all()
            while self._attempts < attempts:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    return False
            return self._next is None

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._next is None or not (self._hurry or time.monotonic() >= self._tried_at + self._interval):
                    due = None if self._next is None else self._tried_at + self._interval - time.monotonic()
                    self._changed.wait(due)
                status, self._next, self._hurry, self._sending = self._next, None, False, True
            problem = self._try(status)
            with self._changed:
                if problem is not None and problem.may_pass:
                    # Send it again after the interval, or with newer values: the last state must arrive.
                    self._next = _merged(status, self._next or {})
                self._sending, self._attempts, self._tried_at = False, self._attempts + 1, time.monotonic()
                self._changed.notify_all()

    def _try(self, status: Mapping[str, Any]) -> _NotSent | None:
        try:
            self._send(status)
        except _NotSent as problem:
            if str(problem) != self._complaint:
                self._complaint = str(problem)
                logger.warning("the training's progress can't be reported to %s: %s", self._url, problem)
            return problem
        self._complaint = ""
        return None

    def _send(self, status: Mapping[str, Any]) -> None:
        body = json.dumps({"trainerStatus": {**status, "lastUpdatedTime": datetime.now(UTC).isoformat()}}).encode()
        try:
            # Both files are read for each report: tokens are renewed about every hour.
            token = Path(self._token_file).read_text(encoding="ascii").strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
            # The body of the response is not read, because it may be endless.
            _opener(self._ca_file).open(request, timeout=TIMEOUT).close()
        except urllib.error.HTTPError as error:
            with error:
                raise _NotSent(f"{error.code} {_message(error)}", may_pass=error.code >= 500) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _NotSent(str(getattr(error, "reason", "") or error), may_pass=True) from None


def _merged(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with the values of both reports. Where both have a value, or a metric of one name, `newer` wins.

    The metrics of `newer` come first, because the server's limit cuts the last metrics.
    """
    metrics = {metric["name"]: metric for metric in newer.get("metrics", ())}
    for metric in older.get("metrics", ()):
        metrics.setdefault(metric["name"], metric)
    kept = {"metrics": list(metrics.values())[:_MAX_METRICS]} if metrics else {}
    return {**older, **newer, **kept}


class _NotSent(Exception):
    """The report has not arrived. `may_pass` is true if a retry may succeed."""

    def __init__(self, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.may_pass = may_pass


def _opener(ca_file: str) -> urllib.request.OpenerDirector:
    context = ssl.create_default_context(cafile=ca_file or None)
    # Python 3.13 checks CA certificates more strictly than Go and older versions of Python. Turn this off.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # No proxy, even if the environment sets one: the server is in this cluster or on this machine.
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirects()
    )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because each request contains a token that is intended for only one server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(4096)).get("message") or error.reason)
    except (OSError, ValueError, AttributeError):
        return str(error.reason)


def metric_list(metrics: Mapping[str, object]) -> list[dict[str, str]]:
    """Return metrics in the form of the protocol: `{"name": "loss", "value": "0.23"}`.

    Metrics without a name or a value are left out. Long names and values are cut, and metrics beyond the server's limit
    are left out, too.
    """
    listed = []
    for name, value in metrics.items():
        text = _number(value)
        if name and text:
            listed.append({"name": str(name)[:_MAX_TEXT], "value": text[:_MAX_TEXT]})
    return listed[:_MAX_METRICS]


def _number(value: object) -> str:
    if isinstance(value, bool | int | str) or value is None:
        return "" if value is None else str(value)
    try:
        number = float(value)  # type: ignore[arg-type] # a number of NumPy or TensorFlow, or none at all
    except (TypeError, ValueError, OverflowError):
        return str(value)
    # A step such as 1234567 must not be rounded to six digits.
    return str(int(number)) if number.is_integer() and abs(number) < _EXACT else f"{number:.6g}"


_senders: dict[tuple[str, str, str], Sender] = {}
"""The senders of this process. The key is the URL, the CA and the token. Each operation on this dictionary is atomic,
so it needs no lock. A lock could be held by another thread at a fork, and would then stay locked in the child process.
"""


def sender() -> Sender | None:
    """Return the sender of this process, made from the environment. Return None if the job does not request reports."""
    key = (os.environ.get(URL_VARIABLE, ""), os.environ.get(CA_VARIABLE, ""), os.environ.get(TOKEN_VARIABLE, ""))
    if not key[0] or not key[2]:
        return None
    return _senders.get(key) or _senders.setdefault(key, Sender(*key))


def flush_all(timeout: float = TIMEOUT) -> bool:
    """Send the pending reports of all senders of this process. Return whether all of them arrived.

    The function waits at most `timeout` seconds for each sender.
    """
    arrived = [process_sender.flush(timeout) for process_sender in tuple(_senders.values())]
    return all(arrived)


atexit.register(flush_all)
if hasattr(os, "register_at_fork"):
    # In a forked process, the threads of the senders do not exist, and their locks may be locked.
    os.register_at_fork(after_in_child=lambda: _senders.clear())
