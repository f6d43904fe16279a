"""Tokens of changes: a tool makes a change only if the tool has shown the effect for the present state of the job.

No I/O. The first call of a changing tool shows the effect and returns a token. The second call passes the token, and
the tool makes the change. A token is valid only for a call with the same arguments, and only while the object that the
call changes is in the same state.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

import msgspec

from tfoperator.base.clock import Clock

LIFETIME = 600.0
"""The number of seconds for which a token is valid. This is enough time for a person to read the effect."""

_DIGITS = 32
_STAMP = re.compile(r"[0-9]{1,12}\.[0-9]{1,12}", re.ASCII)
"""The first part of a token: the time at which the token expires (monotonic clock), a dot, and the token's number."""


class ConfirmationRefused(ValueError):
    """Raised if a token is not valid for this change; the message has the reason and the next step."""


class Effects:
    """Makes and checks the tokens of one server. It is not thread-safe: the caller must hold a lock."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        """Initialize. `key` is a secret of this object: other code must not sign data with it."""
        self._key = key
        self._clock = clock
        self._used: dict[str, float] = {}  # used tokens, with the time at which they expire
        self._made = 0

    def token(self, tool: str, arguments: dict[str, Any], state: str) -> str:
        """Return a new token.

        The token is valid for one call of this tool with these arguments, while the object to change has this state.
        The token expires after LIFETIME seconds.
        """
        self._made += 1
        return self._signed(tool, arguments, state, f"{int(self._clock.monotonic() + LIFETIME)}.{self._made}")

    def redeem(self, token: str, tool: str, arguments: dict[str, Any], state: str) -> None:
        """Check that the token is valid for this change, and mark it as used; else raise ConfirmationRefused."""
        now = self._clock.monotonic()
        self._used = {used: end for used, end in self._used.items() if end > now}
        stamp, _, _ = token.partition("-")
        if not _STAMP.fullmatch(stamp):
            raise ConfirmationRefused("this is not a token of this server: first call the tool without a token")
        ends = int(stamp.partition(".")[0])
        if not hmac.compare_digest(token.encode(), self._signed(tool, arguments, state, stamp).encode()):
            raise ConfirmationRefused(
                "this token is for other arguments or from another server, or the job has changed since the tool "
                "showed the effect: call the tool without a token, and read the new effect"
            )
        if ends <= now:
            raise ConfirmationRefused(
                f"this token has expired after {LIFETIME:.0f} s: call the tool without a token again"
            )
        if token in self._used:
            raise ConfirmationRefused("this token was already used: for another change, call the tool without a token")
        self._used[token] = float(ends)

    def _signed(self, tool: str, arguments: dict[str, Any], state: str, stamp: str) -> str:
        words = msgspec.json.encode([tool, arguments, state, stamp], order="deterministic")
        return f"{stamp}-{hmac.new(self._key, words, hashlib.sha256).hexdigest()[:_DIGITS]}"
