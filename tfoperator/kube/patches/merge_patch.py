"""JSON merge patches (RFC 7386), made and applied without I/O."""

from __future__ import annotations

from typing import Any

import msgspec


def apply_merge_patch(target: object, patch: Any) -> Any:
    """Return the target with the patch applied; neither is changed, but the result may share parts with both.

    Members replace members, null removes them, objects are merged; anything else replaces the target as a whole.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged


def merge_patch(old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """Return the smallest patch that turns `old`, as JSON, into `new`; empty if they are equal.

    Removed members are null. A changed list is in it whole, as a merge patch replaces it: send
    `metadata.resourceVersion` along, so that a patch made from an outdated object is refused.
    """
    return {} if old == new else _difference(*(msgspec.to_builtins(one, str_keys=True) for one in (old, new)))


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
