"""The kinds of options, and their parsers.

A parser reads text from a flag or the environment, or a scalar from a YAML file. Pure. Each parser raises ValueError
for a value that it does not accept. The error's message is the end of a sentence that begins with the option's name,
for example `must be from 1 to 256`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tfoperator.api.fields.problems import Problem
from tfoperator.base.durations import format_duration, parse_duration
from tfoperator.servers.http.limits import Address

_MAX_DURATION = 20 * 365 * 24 * 3600.0
"""The maximum duration, in seconds: 20 years. Waits of threads and the validity of certificates can't be much
longer.
"""

_SIZE = re.compile(r"(\d+)([KMGT]i?)?")
_SIZE_UNITS = {
    letter + suffix: base ** (power + 1)
    for power, letter in enumerate("KMGT")
    for suffix, base in (("", 1000), ("i", 1024))
}
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


_MAX_SHOWN_PROBLEMS = 5  # maximum number of problems in one message


def text(value: object) -> str:
    """Return the value if it is a string."""
    if not isinstance(value, str):
        raise ValueError(f"must be text, but is {value!r}")
    return value


def required_text(value: object) -> str:
    """Return the value if it is a string that is not empty."""
    written = text(value)
    if not written:
        raise ValueError("must not be empty")
    return written


def boolean(value: object) -> bool:
    """Return a boolean from `true`, `1` or `yes`, or from `false`, `0` or `no`, in any letter case."""
    if isinstance(value, bool):
        return value
    lowered = str(value).strip().lower()
    if lowered in ("true", "1", "yes"):
        return True
    if lowered in ("false", "0", "no"):
        return False
    raise ValueError(f"must be true or false, but is {value!r}")


def integer(low: int, high: int) -> Callable[[object], int]:
    """Return a parser for whole numbers from `low` to `high`, both included."""

    def parse(value: object) -> int:
        try:
            found = int(str(value))
        except ValueError:
            raise ValueError(f"must be a whole number, but is {value!r}") from None
        if isinstance(value, bool) or not low <= found <= high:
            raise ValueError(f"must be from {low} to {high}, but is {value!r}")
        return found

    return parse


def number(value: object) -> float:
    """Return a finite number."""
    try:
        found = float(str(value))
    except ValueError:
        raise ValueError(f"must be a number, but is {value!r}") from None
    if isinstance(value, bool) or found != found or abs(found) == float("inf"):
        raise ValueError(f"must be a number, but is {value!r}")
    return found


def positive_number(value: object) -> float:
    """Return a finite number above 0."""
    found = number(value)
    if found <= 0:
        raise ValueError(f"must be more than 0, but is {value!r}")
    return found


def duration(value: object) -> float:
    """Return the seconds of a duration in Go's format: `15s`, `5m`, `1h30m`, `250ms`.

    A number without a unit means seconds. The duration must be more than 0.
    """
    found = seconds(value)
    if found <= 0:
        raise ValueError(f"must be more than 0, but is {value!r}")
    return found


def seconds(value: object) -> float:
    """Return the seconds of a duration in Go's format, as `duration` does, but also accept 0."""
    found = parse_duration(str(value))
    if found > _MAX_DURATION:
        raise ValueError(f"must be at most {format_duration(_MAX_DURATION)}, but is {value!r}")
    return found


def size(value: object) -> int:
    """Return the bytes of a Kubernetes quantity: `10Gi`, `500M`, or a whole number. The size must be more than 0."""
    written = str(value).strip()
    match = _SIZE.fullmatch(written)
    found = int(match[1]) * _SIZE_UNITS.get(match[2] or "", 1) if match and written.isascii() else 0
    if isinstance(value, bool) or not 0 < found < 2**63:
        raise ValueError(f"must be a size above 0, such as 10Gi or 500M, but is {value!r}")
    return found


def shown_size(count: int) -> str:
    """Return a size as text that `size` can read, in the largest binary unit without a fraction, for example `10Gi`."""
    for letter in "TGMK":
        unit = _SIZE_UNITS[letter + "i"]
        if count >= unit and count % unit == 0:
            return f"{count // unit}{letter}i"
    return str(count)


def choice(*options: str) -> Callable[[object], str]:
    """Return a parser that accepts only these texts."""

    def parse(value: object) -> str:
        if value not in options:
            raise ValueError(f"must be one of {', '.join(options)}, but is {value!r}")
        return str(value)

    return parse


def namespaces(value: object) -> tuple[str, ...]:
    """Return namespaces from a list, or from a text with commas between them.

    The result is empty for an empty value: this means all namespaces.
    """
    items = value if isinstance(value, list | tuple) else str(value).split(",")
    found = tuple(dict.fromkeys(part.strip() for item in items for part in str(item).split(",") if part.strip()))
    for namespace in found:
        if not NAMESPACE.fullmatch(namespace):
            raise ValueError(f"must be names of namespaces, but is {namespace!r}")
    return found


def address(value: object) -> Address | None:
    """Parse `host:port`, `:port` (all interfaces) or `[::1]:port`. `0` means None: the operator does not listen."""
    written = str(value).strip()
    if written == "0":
        return None
    host, colon, port = written.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"must be host:port, :port or 0 for none, but is {value!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"must have the IPv6 address in brackets, but is {value!r}")
    return Address(host, int(port))


def https_url(value: object) -> str:
    """Return the URL of an HTTPS server in the form that a CRD accepts: without user, query and fragment.

    An empty text is allowed, and means that there is no URL.
    """
    written = text(value)
    if not written:
        return ""
    try:
        parts = urlsplit(written)
        plain = parts.scheme == "https" and parts.hostname and parts.port != 0
    except ValueError:
        plain = False
    if not plain or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"must be a URL such as https://host:9443/convert, but is {value!r}")
    return written


def refuse(problems: Iterable[Problem]) -> None:
    """Raise ValueError if there are problems. The message lists the first five."""
    found = list(problems)
    if found:
        listed = "; ".join(f"{problem.field} {problem.message}" for problem in found[:_MAX_SHOWN_PROBLEMS])
        more = len(found) - _MAX_SHOWN_PROBLEMS
        raise ValueError(f"is wrong: {listed}" + (f"; and {more} more" if more > 0 else ""))


class ValueKind(NamedTuple):
    """A kind of values, for example durations: how values of options are read, written and described.

    - `placeholder` stands for a value in `--help`.
    - `parse` reads a value from text or from a scalar of a YAML file, and `write` returns a value as text that `parse`
      can read.
    - `description` is the text for the possible values in docs/options.md.
    - `chart_schema` is the JSON schema for values of this kind in the Helm chart.
    """

    placeholder: str
    parse: Callable[[object], Any]
    description: str
    write: Callable[[Any], str] = str
    chart_schema: Mapping[str, Any] = {"type": "string"}


def texts(placeholder: str, *, required: bool = False) -> ValueKind:
    """Return the kind that accepts any text. If it is `required`, the text must not be empty."""
    return ValueKind(placeholder, required_text if required else text, "text, not empty" if required else "text")


def integers(low: int, high: int) -> ValueKind:
    """Return the kind that accepts whole numbers from `low` to `high`, both included."""
    bounds = {"type": "integer", "minimum": low, "maximum": high}
    return ValueKind("N", integer(low, high), f"a whole number from {low} to {high}", chart_schema=bounds)


def choices(placeholder: str, *options: str) -> ValueKind:
    """Return the kind that accepts only these texts."""
    listed = ", ".join(f"`{option}`" for option in options)
    return ValueKind(placeholder, choice(*options), listed, chart_schema={"type": "string", "enum": [*options]})


BOOLEANS = ValueKind(
    "BOOL", boolean, "`true` or `false`", lambda value: str(value).lower(), chart_schema={"type": "boolean"}
)
NUMBERS = ValueKind("N", number, "a number", "{:g}".format, chart_schema={"type": "number"})
POSITIVE_NUMBERS = ValueKind("N", positive_number, "a number above 0", "{:g}".format, chart_schema={"type": "number"})
DURATIONS = ValueKind("TIME", duration, "a duration above 0, such as `1m30s`", format_duration)
DELAYS = ValueKind("TIME", seconds, "a duration, such as `1m30s`; `0s` is none", format_duration)
SIZES = ValueKind(
    "SIZE",
    size,
    "a size above 0, such as `10Gi`",
    shown_size,
    chart_schema={"type": "string", "pattern": "^[1-9][0-9]*([KMGT]i?)?$"},
)
ADDRESSES = ValueKind("ADDR", address, "`host:port`, `:port`, or `0` for none")
HTTPS_URLS = ValueKind("URL", https_url, "an address that begins with `https://`")
NAMESPACES = ValueKind(
    "NS",
    namespaces,
    "names of namespaces",
    ",".join,
    chart_schema={
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    },
)
