"""Applies JSON merge patches (RFC 7386), without I/O."""

from __future__ import annotations

from typing import Any


def apply_merge_patch(target: object, patch: Any) -> Any:
    """Return the target with the patch applied.

    The function changes neither argument, but the result may share parts with both arguments. The fields of a
    patch that is an object replace the target's fields, null removes a field, and nested objects are merged. A patch
    that is not an object replaces the target as a whole.
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
