"""Shortens an answer to the size that the agent requests, and lists the parts that were left out. Pure.

The size of an answer is the number of characters of its JSON, as the agent receives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tfoperator.base.controlchars import valid_json

DEFAULT_CHARACTERS = 8000
"""The maximum size of an answer if the call does not set a maximum: about 2,000 tokens of a language model."""

MAX_CHARACTERS = 100_000
"""The largest value that a call can set as the maximum size of its answer."""

LEFT_OUT = "leftOut"
"""The member of an answer that lists the missing parts."""

_KEPT_TEXT = 160
"""The number of characters at the beginning of each text that shortening keeps."""
_LARGE_MAP = 20
"""A JSON object with more members than this is a map (for example, files by name), whose last members can be left out.
The types of answers have fewer fields, so all fields of an answer stay.
"""
_NEWEST_LAST = frozenset(("lines", "events", "points"))
"""The names of lists in the order of time. Shortening leaves out their first items, which are the oldest."""
_MAX_STEPS = 400

Path = tuple[str | int, ...]


class TooSmall(ValueError):
    """Raised if an answer can't be as short as requested."""


def text_of(answer: Any) -> str:
    """Return the JSON of an answer, on one line and with readable Unicode."""
    return valid_json(answer, separators=(",", ":"))


def bounded(answer: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return the answer, which is plain data, in at most `limit` characters of JSON.

    The largest texts and lists are cut first. The member `leftOut` describes each cut, for example `logs[0].lines: the
    last 50 of 200`. Raises TooSmall if the cuts can't make the answer as short as `limit`.
    """
    size = len(text_of(answer))
    if size <= limit:
        return answer
    cut: dict[str, Any] = json.loads(text_of(answer))
    totals: dict[Path, int] = {}
    for _ in range(_MAX_STEPS):
        noted = {**cut, LEFT_OUT: [*cut.get(LEFT_OUT, ()), *_sentences(cut, totals)]}
        excess = len(text_of(noted)) - limit
        if excess <= 0:
            return noted
        largest = max(_parts(cut, ()), key=lambda part: part[0], default=None)
        if largest is None:
            break
        weight, path = largest
        totals.setdefault(path, len(_at(cut, path)))
        _shorten(cut, path, excess, weight)
        for inner in [inner for inner in totals if len(inner) > len(path) and inner[: len(path)] == path]:
            del totals[inner]  # the inner part may have another index now, or may be gone
    raise TooSmall(f"this answer needs more than {limit} characters: set a larger maxCharacters")


def _parts(value: Any, path: Path) -> Iterator[tuple[int, Path]]:
    """Yield a weight and the path of each text, list and map that can be shortened.

    The part with the largest weight is shortened first. The weight of a list or map is the length of its JSON. The
    weight of a text is twice its length.
    """
    if isinstance(value, str):
        if len(value) > _KEPT_TEXT + 1:
            yield len(value) * 2, path  # a text is cut before a list of equal size
        return
    if not isinstance(value, (dict, list)) or path == (LEFT_OUT,):
        return
    if len(value) > (1 if isinstance(value, list) else _LARGE_MAP):
        yield len(text_of(value)), path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _parts(inner, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _shorten(answer: Any, path: Path, excess: int, weight: int) -> None:
    """Make the text, list or map at a path shorter by about `excess` characters, but by at most half of its length.

    `weight` is the number of characters of the list or map. It has no effect on a text.
    """
    holder, key = _at(answer, path[:-1]), path[-1]
    value = holder[key]
    if isinstance(value, str):
        keep = max(_KEPT_TEXT, len(value) // 2, len(value) - excess - 1)
        holder[key] = value[:keep].removesuffix("…") + "…"
        return
    share = excess / max(weight, 1)
    keep = max(1, len(value) // 2, min(len(value) - 1, int(len(value) * (1 - share))))
    if isinstance(value, dict):
        holder[key] = dict(list(value.items())[:keep])
    else:
        holder[key] = value[-keep:] if path[-1] in _NEWEST_LAST else value[:keep]


def _sentences(answer: Any, totals: dict[Path, int]) -> list[str]:
    """Return the lines of `leftOut`, or [] if nothing was shortened.

    There is a line for each of the first ten shortened parts, a line with the number of further parts, and a line with
    the advice to set `maxCharacters` for a longer answer.
    """
    sentences = []
    for path, total in totals.items():
        value = _at(answer, path)
        name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")
        if isinstance(value, str):
            sentences.append(f"{name}: the first {len(value) - 1} of {total} characters")
        else:
            which = "last" if path[-1] in _NEWEST_LAST else "first"
            sentences.append(f"{name}: the {which} {len(value)} of {total}")
    if len(sentences) > 10:
        sentences = [*sentences[:10], f"{len(sentences) - 10} other texts and lists are cut, too"]
    return [*sentences, "for a longer answer, set maxCharacters"] if sentences else []
