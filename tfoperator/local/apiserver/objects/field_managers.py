"""Server-side apply: the owners of an object's fields, and the result of applying a configuration.

Ownership is recorded only after the first apply. Before, an object has no `managedFields`, and writes of the object
cost no extra time. From then on, fields of earlier writers belong to `before-first-apply`, as in kube-apiserver. All
code in this module is pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from tfoperator.local.apiserver.errors import StatusError, details_of
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.objects.field_sets import (
    MISSING,
    FieldSet,
    Layout,
    differs,
    dotted_path,
    fields_of,
    from_json,
    is_item,
    is_key,
    item_elements,
    remove,
    to_json,
    with_parents,
)
from tfoperator.local.apiserver.resource_types import ResourceType

BEFORE_FIRST_APPLY = "before-first-apply"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Owner(msgspec.Struct, frozen=True):
    """A writer: the name of a field manager, its operation and its subresource."""

    manager: str
    operation: str = "Update"
    subresource: str = ""


Owned = Mapping[Owner, FieldSet]


class AppliedObject(msgspec.Struct, frozen=True):
    """The result of an apply: the object, and the owners of its fields."""

    obj: Json
    owned: Owned


class _Entry(msgspec.Struct, rename="camel"):
    """One entry of an object's `managedFields`."""

    manager: str = ""
    operation: Literal["Apply", "Update"] = "Update"
    subresource: str = ""
    fields_v1: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")


def owned_fields(entries: Any) -> Owned:
    """Return the owners of fields, from an object's `managedFields`.

    Raises ValueError if a client has written invalid entries.
    """
    read = msgspec.convert(entries or (), list[_Entry])
    return {Owner(e.manager, e.operation, e.subresource): from_json(e.fields_v1) for e in read if e.fields_v1}


def managed_fields(owned: Owned, before: Iterable[Json], api_version: str, now: str) -> list[Json]:
    """Return the `managedFields` for these owners. `before` has the old entries of the object.

    An entry that has not changed keeps its time. A new or changed entry gets the time `now`.
    """
    entries_by_owner = {(e["manager"], e["operation"], e.get("subresource", "")): e for e in before}
    entries = []
    for owner, fields in sorted(owned.items(), key=lambda item: msgspec.structs.astuple(item[0])):
        if not fields:
            continue
        entry: Json = {"manager": owner.manager, "operation": owner.operation, "apiVersion": api_version}
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_json(fields)}
        if owner.subresource:
            entry["subresource"] = owner.subresource
        old = entries_by_owner.get((owner.manager, owner.operation, owner.subresource), {})
        same = old.get("fieldsV1") == entry["fieldsV1"]
        entries.append({**entry, "time": old["time"] if same else now})
    return entries


def apply(
    resource: ResourceType, current: Json | None, wanted: Json, owner: Owner, layout: Layout, *, force: bool
) -> AppliedObject:
    """Return the result when `owner` applies `wanted` to `current` (None: there is no object).

    Raises StatusError 409 if this would change a field that another owner has. The error names each such field. With
    `force`, change these fields, and take them from their owners. `layout` describes the lists and maps of this kind.
    """
    fields = fields_of(wanted, layout)
    if current is None:
        return AppliedObject(copy.deepcopy(wanted), {owner: fields})
    owned = dict(owned_fields(current["metadata"].get("managedFields")))
    if not owned:
        applied_by_client = _LAST_APPLIED in (current["metadata"].get("annotations") or {})
        name = "kubectl-client-side-apply" if applied_by_client else BEFORE_FIRST_APPLY
        owned[Owner(name)] = fields_of(current, layout)
    mine = owned.pop(owner, frozenset())
    changed = frozenset(path for path in fields if differs(current, wanted, path, layout))
    lost = {other: theirs & changed for other, theirs in owned.items()}
    if not force and any(lost.values()):
        raise _conflict(resource, current, lost)
    owned = {other: theirs - lost[other] for other, theirs in owned.items()}
    obj = _merge(copy.deepcopy(current), wanted, "", layout)
    others = with_parents(path for theirs in owned.values() for path in theirs)
    # Remove whole items of lists first. The keys of an item are never removed alone, because they identify it.
    for path in sorted(mine - fields, key=lambda path: (not is_item(path), len(path))):
        if path not in others and not is_key(path):
            remove(obj, path)
    return AppliedObject(obj, {**owned, owner: fields})


def after_update(old: Json, new: Json, given: Any, owner: Owner, layout: Layout) -> Owned:
    """Return the owners of fields after a write that is not an apply.

    The writer becomes the owner of the fields that it changes. `given` is the `managedFields` in the request, which
    replaces the stored value unless it is absent or invalid. kubectl sends such a value when a user changes from
    client-side apply to server-side apply.
    """
    try:
        owned_before = owned_fields(given or old["metadata"].get("managedFields"))
    except ValueError:  # includes msgspec's errors
        owned_before = owned_fields(old["metadata"].get("managedFields"))
    before, after = fields_of(old, layout), fields_of(new, layout)
    changed = (after - before) | {path for path in after & before if differs(old, new, path, layout)}
    owned = {other: (theirs & after) - changed for other, theirs in owned_before.items()}
    mine = owned.pop(owner, frozenset()) | changed
    return {**owned, owner: mine} if mine else owned


def _conflict(resource: ResourceType, current: Json, lost: Owned) -> StatusError:
    causes, listed = [], []
    for owner, fields in lost.items():
        by = _name(owner, resource)
        paths = sorted(dotted_path(path) for path in fields)
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {by}", "field": path} for path in paths
        ]
        listed += [f"conflicts with {by}:", *(f"- {path}" for path in paths)] if paths else []
    message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(listed)
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    return StatusError(
        409, "Conflict", message, details=details_of(resource, current["metadata"]["name"], causes=causes)
    )


def _name(owner: Owner, resource: ResourceType) -> str:
    """Return an owner's name in the format of kube-apiserver's conflict messages."""
    part = f' with subresource "{owner.subresource}"' if owner.subresource else ""
    return f'"{owner.manager}"{part}' + (f" using {resource.api_version}" if owner.operation == "Update" else "")


def _merge(current: Any, wanted: Any, dotted: str, layout: Layout) -> Any:
    """Return `current` with all fields of `wanted`, and without fields that are null in `wanted`.

    `dotted` is the path of both values in their objects. `current` is changed in place if possible.
    """
    if isinstance(current, dict) and isinstance(wanted, dict) and dotted not in layout.atomic:
        for name, value in wanted.items():
            if value is None:
                current.pop(name, None)
            else:
                current[name] = _merge(current.get(name, MISSING), value, layout.below(dotted, name), layout)
        return current
    if isinstance(current, list) and isinstance(wanted, list):
        here, there = item_elements(current, dotted, layout), item_elements(wanted, dotted, layout)
        if here is not None and there is not None:
            places = {element: index for index, element in enumerate(here)}
            for element, item in zip(there, wanted, strict=True):
                if element in places:
                    current[places[element]] = _merge(current[places[element]], item, dotted, layout)
                else:
                    current.append(copy.deepcopy(item))
            return current
    return copy.deepcopy(wanted)
