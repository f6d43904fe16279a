"""Errors of a command that a user can fix, and its exit codes. `complaints` writes the messages."""

from __future__ import annotations

from typing import Final

EXIT_FAILED: Final = 1
"""The command worked, and the result is negative: an invalid manifest, a failed job."""
EXIT_USAGE: Final = 2
"""The command line is wrong: unknown option, unreadable file."""
EXIT_BUG: Final = 70  # EX_SOFTWARE of sysexits.h
EXIT_TIMEOUT: Final = 124  # as of timeout(1)
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as in shells


class CliError(Exception):
    """A failure that a user can fix. `hint` is the way to fix it."""

    def __init__(self, message: str, hint: str = "", *, exit_code: int = EXIT_USAGE) -> None:
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(message)


def output_lost(error: OSError, consequence: str, hint: str, *, exit_code: int = EXIT_FAILED) -> CliError:
    """Return the message that standard output could not be written any more, and what became of the rest."""
    return CliError(
        f"can't write to standard output any more ({error.strerror}){consequence}", hint, exit_code=exit_code
    )
