"""What every test relies on."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings


def pytest_configure() -> None:
    """See to what the machine and the shell must not decide."""
    _let_interrupts_through()
    # How fast examples come is no property of what is tested: the very first one of a clone builds a table of Unicode.
    too_slow = [*settings.default.suppress_health_check, HealthCheck.too_slow]
    settings.register_profile("tests", settings.default, deadline=None, suppress_health_check=too_slow)
    settings.load_profile("tests")


def _let_interrupts_through() -> None:
    """Let Ctrl-C reach the commands that tests start.

    A shell starts its background jobs (`make test &`) with SIGINT ignored, and children inherit that: tests that
    interrupt a command would then wait for ever. A handler is not inherited, so children start with the default.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
