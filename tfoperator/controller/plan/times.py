"""Arithmetic on timestamps that may be missing, naive, in the future or absurd, without ever raising."""

from __future__ import annotations

from datetime import UTC, datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds_between(earlier: datetime, later: datetime) -> float:
    """Seconds from `earlier` to `later`, negative if they are the other way round. A naive time counts as UTC."""
    return (_aware(later) - _aware(earlier)).total_seconds()


def epoch_seconds(moment: datetime | None) -> float:
    """Seconds since 1970 as a sort key; a missing time sorts as 1970."""
    return 0.0 if moment is None else seconds_between(_EPOCH, moment)


def whole_second(moment: datetime) -> datetime:
    """The moment as a status records it: UTC, cut to the second, since Kubernetes' times have no fractions."""
    return _aware(moment).astimezone(UTC).replace(microsecond=0)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
