"""The smallest merge patch from one status to another, because a status write should cost what has changed."""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.api.v1.types import TFJobStatus


def status_patch(old: TFJobStatus, new: TFJobStatus) -> dict[str, Any] | None:
    """The JSON merge patch (RFC 7386) `{"status": ...}` that turns `old` into `new`; None if they are equal.

    Members that are gone are null. Lists (the conditions) are sent whole, which is how a merge patch replaces them;
    send `metadata.resourceVersion` along, so that a patch made from an outdated status is refused.
    """
    if old == new:
        return None
    changes = _difference(_plain(old), _plain(new))
    return {"status": changes} if changes else None


def _plain(status: TFJobStatus) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(status, str_keys=True)
    return value


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            nested = _difference(before, value)
            if nested:
                changes[name] = nested
        elif name not in old or value != before:
            changes[name] = value
    return changes
