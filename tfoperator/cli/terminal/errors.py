"""Errors that the user of a command can fix, and their exit codes. The module `complaints` prints these errors."""

from __future__ import annotations

from typing import Final

EXIT_FAILED: Final = 1
"""The exit code for a negative result, for example an invalid manifest or a failed job."""
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
    """Return the error for a standard output that can't be written any more.

    `consequence` is the part of the message about the run, for example `: the run was stopped`.
    """
    return CliError(
        f"can't write to standard output any more ({error.strerror}){consequence}", hint, exit_code=exit_code
    )
