"""Reads and writes resource quantities (`500m`, `8Gi`, `4`) as exact numbers: a sum must not lose a byte or a milli.

Only quantities that the Kubernetes API server accepts are read. The length of a number is limited, because any user may
write a number into a pod template, and a very long number would take long to compute with.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,2})?")
_MAX_LENGTH = 64

_BINARY_SUFFIXES = {f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTPE", 1)}
_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_MAX_NUMBER = Fraction(2**63 - 1)
"""The largest number that API servers hold; they and this module reduce larger numbers to it."""


def parse_quantity(value: object) -> Fraction:
    """Return a quantity's number. Raises ValueError for any other value, also for a float and for a negative number."""
    number = parse_signed_quantity(None if isinstance(value, float) else value)
    if number < 0:
        raise ValueError("must be 0 or more")
    return number


def parse_signed_quantity(value: object) -> Fraction:
    """Return the number of a quantity; accept also a JSON float and a negative number, as API servers do.

    Raises ValueError for any other value.
    """
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    match = _NUMBER.fullmatch(text) if text.isascii() and len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError("must be a quantity such as 4, 500m or 8Gi")
    sign, digits, suffix = match.groups()
    number = Fraction(digits)
    if suffix in _BINARY_SUFFIXES:
        number *= _BINARY_SUFFIXES[suffix]
    elif suffix:
        power = _DECIMAL_EXPONENTS[suffix] if suffix in _DECIMAL_EXPONENTS else int(suffix[1:])
        number *= Fraction(10) ** power
    number = min(number, _MAX_NUMBER)
    return -number if sign == "-" else number


def is_binary(value: object) -> bool:
    """Return whether a quantity has a binary suffix (a sum is then written with a binary suffix, too)."""
    return isinstance(value, str) and value.endswith("i")


def format_quantity(number: Fraction, *, binary: bool = False) -> str:
    """Return the shortest text for a number; only fractions of a nano are rounded, and always up.

    With `binary`, the units Ki, Mi ... are preferred if the number is a whole multiple of such a unit.
    """
    if binary and number.denominator == 1:
        for suffix, factor in reversed(_BINARY_SUFFIXES.items()):
            if number and number % factor == 0:
                return f"{number // factor}{suffix}"
    for suffix, power in reversed(_DECIMAL_EXPONENTS.items()):
        scaled = number / Fraction(10) ** power
        if number and scaled.denominator == 1:
            return f"{scaled.numerator}{suffix}"
    return f"{-(-number * 10**9 // 1)}n" if number else "0"
