"""Ages of objects as the commands show them. Pure."""

from __future__ import annotations

from datetime import datetime

from tfoperator.base.durations import human_duration


def age(since: datetime | None, now: datetime) -> str:
    """The time that has passed since; `-` if there is no such time."""
    return "-" if since is None else human_duration((now - since).total_seconds())
