"""A pipeline or a run as a picture and as text.

In the picture, each step is a box, in a column to the right of the steps from which it reads. The module does no I/O.
`arrange` computes the positions for any kind of drawing. `draw` makes an SVG from the positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import msgspec

from tfoperator.base.controlchars import printable
from tfoperator.base.durations import human_duration
from tfoperator.pipeline.store.records import ExecutionRecord, ExecutionState, RunRecord

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 46, 60, 22, 16
_TITLE_HEIGHT = 24
_MAX_SHOWN = 26  # characters of a line that fit into a box

_COLOURS = {
    "succeeded": "#2e7d32",
    "cached": "#558b2f",
    "failed": "#c62828",
    "retryable": "#ef6c00",
    "running": "#0277bd",
    "cancelled": "#6d4c41",
}
_DEFAULT_COLOUR = "#546e7a"


class Box(msgspec.Struct, frozen=True):
    """A step, with the position of its upper left corner."""

    name: str
    x: int
    y: int


class Picture(msgspec.Struct, frozen=True):
    """The positions of the steps in pixels.

    Each box has the size `box_width` by `box_height`. `lines` connect each step with its predecessors. A line is the
    text of the attribute `d` of an SVG `<path>`.
    """

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    box_width: int = _WIDTH
    box_height: int = _HEIGHT


def arrange(steps: Mapping[str, Sequence[str]], *, top: int = 0) -> Picture:
    """Return the position of each step, with `top` free pixels above the steps.

    `steps` maps each step to its predecessors. In this mapping, a predecessor comes before the step. In the picture, a
    predecessor is in a column to the left of the step.
    """
    column: dict[str, int] = {}
    sizes: Counter[int] = Counter()
    corner: dict[str, Box] = {}
    for name, after in steps.items():
        column[name] = x = 1 + max((column.get(predecessor, -1) for predecessor in after), default=-1)
        corner[name] = Box(name, _MARGIN + x * (_WIDTH + _GAP_X), _MARGIN + top + sizes[x] * (_HEIGHT + _GAP_Y))
        sizes[x] += 1
    rows = max(sizes.values(), default=0)
    width = 2 * _MARGIN + len(sizes) * _WIDTH + max(0, len(sizes) - 1) * _GAP_X
    height = 2 * _MARGIN + top + rows * _HEIGHT + max(0, rows - 1) * _GAP_Y
    lines = [
        _line(corner[predecessor], corner[name])
        for name, after in steps.items()
        for predecessor in after
        if predecessor in corner
    ]
    return Picture(width, height, tuple(corner.values()), tuple(lines))


def draw(
    title: str,
    steps: Mapping[str, Sequence[str]],
    states: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
) -> str:
    """Return the drawing as an SVG. `steps` maps each step to its predecessors (as in `arrange`).

    `states` maps the steps of a run to the words of `states_of`, which determine the colours of the boxes. `notes` maps
    steps to the texts in their boxes. A box without a note shows its state.
    """
    picture = arrange(steps, top=_TITLE_HEIGHT)
    width, height = picture.width, picture.height
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{_text(title)}</title>",
        f'<text x="{_MARGIN}" y="{_MARGIN + 6}" font-weight="bold" fill="#263238">{_text(title)}</text>',
        *[f'<path d="{path}" fill="none" stroke="#90a4ae" stroke-width="1.5"/>' for path in picture.lines],
    ]
    for box in picture.boxes:
        x, y, state = box.x, box.y, (states or {}).get(box.name, "")
        note, colour = (notes or {}).get(box.name, state), _COLOURS.get(state, _DEFAULT_COLOUR)
        lines += [
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{colour}"/>',
            f'<text x="{x + 10}" y="{y + (20 if note else 28)}" fill="#fff">{_text(_short(box.name))}</text>',
        ]
        if note:
            lines.append(f'<text x="{x + 10}" y="{y + 37}" fill="#fff" font-size="11">{_text(_short(note))}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _line(begin: Box, end: Box) -> str:
    x1, y1 = begin.x + _WIDTH, begin.y + _HEIGHT // 2
    x2, y2 = end.x, end.y + _HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _text(text: str) -> str:
    return escape(printable(text))


_STATES = {"COMPLETE": "succeeded", "CANCELED": "cancelled"}
"""The words in a drawing for some states of a recorded execution. For any other state, the word is the state in lower
case, such as `failed`.
"""


def states_of(run: RunRecord, known: Mapping[str, ExecutionRecord | ExecutionState]) -> dict[str, str]:
    """Return a word for the state of each step of a run, such as `succeeded`, `waiting`, `not run` or `interrupted`.

    `known` has the execution of each step that has begun, or only the state of the execution.
    """
    words, not_begun = {}, "waiting" if run.state == "running" else "not run"
    for name in run.steps:
        execution = known.get(name)
        state = execution.state if isinstance(execution, ExecutionRecord) else execution
        word = not_begun if state is None else _STATES.get(state, state.lower())
        words[name] = "interrupted" if word == "running" and run.state != "running" else word
    return words


def step_notes(run: RunRecord, known: Mapping[str, ExecutionRecord]) -> dict[str, str]:
    """Return a text for each step: the word for its state (`states_of`), and the time that it took if it has ended.

    A step whose outputs were reused (`CACHED`) has no time.
    """
    notes = states_of(run, known)
    for name, execution in known.items():
        if (
            name in notes
            and execution.began is not None
            and execution.ended is not None
            and execution.state != "CACHED"
        ):
            notes[name] += f" {human_duration((execution.ended - execution.began).total_seconds())}"
    return notes


def steps_done(states: Mapping[str, str]) -> int:
    """Return the number of steps that succeeded or were reused."""
    return sum(state in ("succeeded", "cached") for state in states.values())
