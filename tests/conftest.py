"""What every test relies on."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Let Ctrl-C reach the commands that tests start.

    A shell starts its background jobs (`make test &`) with SIGINT ignored, and children inherit that: tests that
    interrupt a command would then wait for ever. A handler is not inherited, so children start with the default.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
