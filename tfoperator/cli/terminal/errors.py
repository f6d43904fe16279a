"""Errors of a command that a user can fix, and the exit codes for them. The messages are written in `complaints`."""

from __future__ import annotations

from typing import Final

EXIT_FAILED: Final = 1
"""The exit code of a command that has worked, but has a negative result: an invalid manifest, a failed job."""
EXIT_USAGE: Final = 2
"""The exit code for a wrong command line: an unknown option, or a file that can't be read."""
EXIT_BUG: Final = 70  # EX_SOFTWARE of sysexits.h
EXIT_TIMEOUT: Final = 124  # as of timeout(1)
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as in shells


class CliError(Exception):
    """A failure that a user can fix. `hint` explains how to fix it."""

    def __init__(self, message: str, hint: str = "", *, exit_code: int = EXIT_USAGE) -> None:
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(message)


def output_lost(error: OSError, consequence: str, hint: str, *, exit_code: int = EXIT_FAILED) -> CliError:
    """Return the error that standard output can't be written any more; `consequence` is what happens to the run."""
    return CliError(
        f"can't write to standard output any more ({error.strerror}){consequence}", hint, exit_code=exit_code
    )
