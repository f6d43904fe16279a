"""Applies a strategic merge patch as Kubernetes does: lists of named items are merged by their key, not replaced.

This pure function gives the same results as `k8s.io/apimachinery/pkg/util/strategicpatch`, with the same order and the
same errors. tests/unit/kube/patches/strategic_vectors.jsonl contains results of that library. There is one difference.
The library looks up every field in the Go types, and refuses unknown fields that contain objects or lists. This
function merges or replaces such fields like any other field.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tfoperator.kube.patches.merge_keys import SCALARS, merge_keys

_Dict = dict[str, Any]
_Keys = Mapping[str, str]

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"


class StrategicMergeError(ValueError):
    """The patch is malformed, or does not fit the object; the message names the field."""


def strategic_merge(obj: Mapping[str, Any], patch: Mapping[str, Any], kind: str) -> _Dict:
    """Return the patched object as a new value. The object's `kind` determines which lists are merged by key.

    The result shares no parts with the object or the patch. Raises StrategicMergeError if the patch is malformed or
    does not fit the object.
    """
    return _merge_map(copy.deepcopy(dict(obj)), copy.deepcopy(dict(patch)), merge_keys(kind), "")


# Everything below may change `obj` and `patch`, which are copies.


def _merge_map(obj: _Dict, patch: _Dict, keys: _Keys, path: str) -> _Dict:
    if _PATCH in patch:
        return _directed(patch, path)
    _retain_keys(obj, patch, path)
    for directive in [name for name in patch if name.startswith(_ORDER)]:
        _merge_ordered(obj, patch, directive, keys, path)
    for name, value in patch.items():
        deletes = name.startswith(_DELETE_FROM)
        field = name.removeprefix(_DELETE_FROM) if deletes else name
        where = f"{path}.{field}" if path else field
        if value is None:
            obj.pop(field, None)
        elif field in obj and _kind(obj[field]) is dict and isinstance(value, dict):
            obj[field] = _merge_map(obj[field], value, keys, where)
        elif field in obj and _kind(obj[field]) is list and isinstance(value, list):
            obj[field] = _merge_list(obj[field], value, keys, where, deletes=deletes)
        elif not deletes:
            _set(obj, field, _without_nulls(value))
    return obj


def _directed(patch: _Dict, path: str) -> _Dict:
    match patch.pop(_PATCH):
        case "replace":
            return patch
        case "delete":
            return {}
        case other:
            raise StrategicMergeError(f"{path or 'the patch'}: $patch must be replace or delete, not {other!r}")


def _retain_keys(obj: _Dict, patch: _Dict, path: str) -> None:
    if _RETAIN not in patch:
        return
    retained = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise StrategicMergeError(f"{path or 'the patch'}: {_RETAIN} must be a list of field names")
    stray = [
        name
        for name, value in patch.items()
        if value is not None and name not in retained and not name.startswith((_DELETE_FROM, _ORDER))
    ]
    if stray:
        raise StrategicMergeError(
            f"{path or 'the patch'}: {_RETAIN} must contain {', '.join(stray)}, which the patch sets"
        )
    for name in [name for name in obj if name not in retained]:
        del obj[name]


def _merge_ordered(obj: _Dict, patch: _Dict, directive: str, keys: _Keys, path: str) -> None:
    """Merge FIELD, the list that the directive `$setElementOrder/FIELD` names, and store the merged list in `obj`.

    Remove the directive and FIELD from the patch.
    """
    order, field = patch.pop(directive), directive.removeprefix(_ORDER)
    where = f"{path}.{field}" if path else field
    for what in (order, obj.get(field, []), patch.get(field, [])):
        if not isinstance(what, list):
            raise StrategicMergeError(f"{where}: this field and {directive} must be lists")
    key = keys.get(where, SCALARS)
    before = list(obj.get(field, []))
    if field in patch:
        _check_order(patch[field], order, key, where)
    if field in obj and field in patch:
        merged = _merge_list(obj[field], patch[field], keys, where)
    elif field in obj or field in patch:
        merged = obj[field] if field in obj else _without_directives(patch[field])
    else:
        return
    kind = _element_type([*before, *patch.pop(field, [])], where)
    obj[field] = _in_order(merged, order, before, key, kind, where)


def _merge_list(current: list[Any], patch: list[Any], keys: _Keys, path: str, *, deletes: bool = False) -> list[Any]:
    if path not in keys and not deletes:
        return patch
    if not current and not patch:
        return current
    key = keys.get(path, SCALARS)
    kind = _element_type([*current, *patch], path)
    if kind is not dict:
        if deletes:
            return [item for item in current if not _among(item, patch)]
        merged: list[Any] = []
        for item in (*current, *patch):
            if not _among(item, merged):
                merged.append(item)
        return _in_order(merged, patch, current, key, kind, path)
    if not key:
        raise StrategicMergeError(
            f"{path}: the objects of this list can't be merged, because the list has no merge key"
        )
    current, patch = _take_special(current, patch, key, path)
    before = list(current)
    for item in patch:
        wanted = _key_of(item, key, path)
        at = next((i for i, old in enumerate(current) if key in old and _same(old[key], wanted)), None)
        if at is None:
            current.append(item)
        else:
            current[at] = _merge_map(current[at], item, keys, path)
    return _in_order(current, patch, before, key, kind, path)


def _take_special(current: list[_Dict], patch: list[_Dict], key: str, path: str) -> tuple[list[_Dict], list[_Dict]]:
    """Apply the items of the patch that are directives, for example `{"$patch": "delete", "name": "a"}`.

    Return the list after these directives, and the items of the patch that are still to merge. With the directive
    `replace`, the plain items of the patch become the list, and the second list is empty.
    """
    replaced = False
    plain: list[_Dict] = []
    for item in patch:
        match item.get(_PATCH, plain):
            case directive if directive is plain:
                plain.append(item)
            case "delete":
                gone = _key_of(item, key, path)
                current = [old for old in current if key not in old or not _same(old[key], gone)]
            case "replace":
                replaced = True
            case other:
                raise StrategicMergeError(f"{path}: $patch of an item must be replace or delete, not {other!r}")
    return (plain, []) if replaced else (current, plain)


# Order: the patch's items in its order, around the items that only the object has.


def _in_order(merged: list[Any], wanted: list[Any], before: list[Any], key: str, kind: type, path: str) -> list[Any]:
    """Return the items in the order that Kubernetes uses for a merged list.

    `before` is the list in the object. The items in `wanted` get the order of `wanted`, and all other items keep the
    order of `before`. One of the other items comes before an item of `wanted` only if it does so in `before`, too.
    """
    if key:
        _check_keys(merged, key, path)
    named = [item for item in merged if _index(wanted, item, key) >= 0]
    others = [item for item in merged if _index(wanted, item, key) < 0]
    if kind is dict:
        _check_keys([*wanted, *before], key, path)
    named, others = _sorted(named, wanted, key), _sorted(others, before, key)
    out: list[Any] = []
    while named and others:
        mine, theirs = _index(before, named[0], key), _index(before, others[0], key)
        out.append(others.pop(0) if 0 <= theirs < mine else named.pop(0))
    return [*out, *named, *others]


def _sorted(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Sort by insertion, as Kubernetes' Go library does for up to 20 items.

    An item that is not in `order` moves to the front.
    """
    out: list[Any] = []
    ranks: list[int] = []
    for item in items:
        rank, at = _index(order, item, key), len(out)
        while at > 0 and (rank < 0 or ranks[at - 1] < 0 or rank < ranks[at - 1]):
            at -= 1
        out.insert(at, item)
        ranks.insert(at, rank)
    return out


def _check_order(patch: list[Any], order: list[Any], key: str, path: str) -> None:
    """Raise StrategicMergeError unless `$setElementOrder` (`order`) names the patch's items, in the same order.

    `order` may also name other items. Items of the patch that are directives are ignored.
    """
    if not patch or not order:
        return
    rest = [item for item in patch if not (key and isinstance(item, dict) and _PATCH in item)]
    if key:
        _check_keys(rest, key, path)
        _check_keys(order if rest else [], key, path)
    for item in order:
        if rest and _same(_identity(rest[0], key), _identity(item, key)):
            rest.pop(0)
    if rest:
        raise StrategicMergeError(
            f"{path}: the order of the patch differs from the order in {_ORDER}{path.rpartition('.')[2]}"
        )


def _check_keys(items: Sequence[Any], key: str, path: str) -> None:
    for item in items:
        _key_of(item, key, path)


def _key_of(item: Any, key: str, path: str) -> Any:
    if not isinstance(item, dict):
        raise StrategicMergeError(f"{path}: must be a list of objects, but contains {item!r}")
    if key not in item:
        raise StrategicMergeError(f"{path}: each item must have {key!r}, the merge key of the list: {item!r}")
    return item[key]


def _index(items: list[Any], item: Any, key: str) -> int:
    wanted = _identity(item, key)
    return next((i for i, other in enumerate(items) if _same(_identity(other, key), wanted)), -1)


def _identity(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, dict) else item


# The types below are JSON's types, because in Python a bool is an int.


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _same(left: Any, right: Any) -> bool:
    return _kind(left) is _kind(right) and bool(left == right)


def _among(item: Any, items: Sequence[Any]) -> bool:
    return any(_same(item, other) for other in items)


def _element_type(items: Sequence[Any], path: str) -> type:
    kinds = {_kind(item) for item in items}
    if len(kinds) != 1 or kinds & {list, type(None)}:
        raise StrategicMergeError(f"{path}: a list that is merged must have items of one type, without lists or nulls")
    return kinds.pop()


def _set(obj: _Dict, field: str, value: Any) -> None:
    if isinstance(value, dict) and _PATCH in value:
        obj.pop(field, None)
    else:
        obj[field] = _without_directives(value)


def _without_directives(value: Any) -> Any:
    """Return a value of the patch as it is stored: without the nested objects that contain `$patch`.

    Other directives, for example `$retainKeys`, stay, as in Kubernetes' Go library.
    """
    if isinstance(value, dict):
        return {
            name: _without_directives(member)
            for name, member in value.items()
            if not (isinstance(member, dict) and _PATCH in member)
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not (isinstance(item, dict) and _PATCH in item)]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
