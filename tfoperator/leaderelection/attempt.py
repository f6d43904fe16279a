"""Calls that may hang, with a deadline: a leader must learn in time that the API server does not answer.

A blocked socket can't be interrupted from outside, so the call runs in a thread of its own which is abandoned
at the deadline; it ends when the client's own time-out strikes. What it returns then is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from tfoperator.base.clock import Clock

R = TypeVar("R")


class _Outcome(Generic[R]):
    """Where the thread leaves its result."""

    def __init__(self) -> None:
        self.changed = threading.Condition()  # guards the fields below
        self.ended = False
        self.value: R | None = None
        self.error: Exception | None = None


def call_with_deadline(call: Callable[[], R], *, clock: Clock, deadline: float, name: str) -> R:
    """Return or raise what `call` does, or raise TimeoutError at `deadline` (on `clock.monotonic()`).

    `call` must not change anything that outlives it but through its return value, since it may end after the
    deadline. `name` names the thread.
    """
    outcome: _Outcome[R] = _Outcome()

    def run() -> None:
        value, failure = None, None
        try:
            value = call()
        except Exception as error:  # noqa: BLE001 - handed to the caller, who raises it
            failure = error
        with outcome.changed:
            outcome.value, outcome.error, outcome.ended = value, failure, True
            outcome.changed.notify_all()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    with outcome.changed:
        while not outcome.ended:
            if not clock.wait_until(outcome.changed, deadline) and not outcome.ended:
                raise TimeoutError(f"{name} got no answer in time")
    thread.join()
    if outcome.error is not None:
        raise outcome.error
    return outcome.value  # type: ignore[return-value]  # ended without error: it holds what `call` returned
