"""Finds metrics named loss, and checks whether they are finite numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tfoperator.api.v1.parts.progress import Metric

_NAMES = frozenset({"loss", "train_loss", "training_loss"})


def loss_is_a_number(metrics: Iterable[Metric]) -> bool | None:
    """Return whether the loss among these metrics is finite; None if there is no loss.

    If a value is not the text of a number, it counts as finite.
    """
    values = [metric.value for metric in metrics if metric.name.lower() in _NAMES]
    return all(map(_is_finite, values)) if values else None


def _is_finite(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return True
