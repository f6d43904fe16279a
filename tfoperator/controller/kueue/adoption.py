"""Compares a Workload of Kueue's own framework, which was given to the operator, with what its job needs. Pure.

Such a Workload has no mark, so the operator can't notice from it that the job has changed. So the operator compares it
with the job once, in all that Kueue counts and places by; then it writes the mark of the job as it is. The two can't be
equal: Kueue has written the values of the admission into the templates of an admitted job, an API server adds defaults,
and quantities may be written otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.controller.kueue.pod_sets import Placement

Json = dict[str, Any]

_PLACED_BY = (
    "affinity",
    "nodeName",
    "overhead",
    "resourceClaims",
    "runtimeClassName",
    "schedulerName",
    "topologySpreadConstraints",
)
"""Members of a pod's spec that Kueue counts, or that decide on its node. Others have rules of their own."""

_WISHES = ("required", "preferred", "podSetGroupName", "podSetSliceRequiredTopology", "podSetSliceSize")

_encode = msgspec.json.Encoder(order="sorted").encode


def agree(asked: Sequence[Json], needed: Sequence[Json], found: Mapping[str, Placement]) -> bool:
    """Return whether the pod sets that a Workload has asked for are those that its job needs.

    `found` is what each set was admitted with: the job's templates may have that, too.
    """
    if [(one.get("name"), one.get("count", 1)) for one in asked] != [(one["name"], one["count"]) for one in needed]:
        return False
    return all(
        _agrees(had, now, found.get(now["name"]) or Placement(0, {}, {}, {}, []))
        for had, now in zip(asked, needed, strict=True)
    )


def _agrees(asked: Json, needed: Json, place: Placement) -> bool:
    had, now = _spec(asked), _spec(needed)
    selectors = [had.get("nodeSelector") or {}]
    selectors.append({**selectors[0], **place.node_selector})
    given = set(map(_encode, place.tolerations))
    tolerates, tolerated = (set(map(_encode, one.get("tolerations") or ())) - given for one in (now, had))
    return (
        _requests(had) == _requests(now)
        and (now.get("nodeSelector") or {}) in selectors
        and tolerates == tolerated
        and [_without_empty(had.get(name)) for name in _PLACED_BY]
        == [_without_empty(now.get(name)) for name in _PLACED_BY]
        and _wishes(asked, place) == _wishes(needed, place)
    )


def _spec(pod_set: Json) -> Json:
    return (pod_set.get("template") or {}).get("spec") or {}


def _requests(spec: Json) -> list[Any]:
    """Return what the pod asks for: by container, and as a whole."""
    containers = [
        (kind, one.get("name"), one.get("restartPolicy"), _amounts(one))
        for kind in ("initContainers", "containers")
        for one in spec.get(kind) or ()
    ]
    return [*containers, _amounts(spec)]


def _amounts(owner: Json) -> Json:
    """Return the requests of a container or a pod. Without a request, the limit is the request, as in every cluster."""
    resources = owner.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**{name: _amount(value) for name, value in asked.items()}, "claims": resources.get("claims") or []}


def _amount(value: object) -> object:
    try:
        return parse_quantity(value)
    except ValueError:
        return value


def _wishes(pod_set: Json, place: Placement) -> Json:
    """Return the wishes for places. Into a template without wishes, Kueue writes that any place will do."""
    wish = pod_set.get("topologyRequest") or {}
    wishes = {name: wish[name] for name in _WISHES if wish.get(name)}
    return wishes if place.gated or not wish.get("unconstrained") else wishes | {"unconstrained": True}


def _without_empty(value: Any) -> Any:
    """Return the value without empty members, which a program in Go leaves out or adds."""
    if isinstance(value, dict):
        members = {name: _without_empty(one) for name, one in value.items()}
        return {name: one for name, one in members.items() if one not in (None, {}, [], "")} or None
    if isinstance(value, list):
        return [_without_empty(one) for one in value] or None
    return value
