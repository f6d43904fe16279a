"""Compares a Workload that an administrator has given to the operator with the needs of the Workload's job.

Pure. Kueue's own TFJob integration has created such a Workload. The administrator has given it to the operator by the
value `ADOPTED` of the annotation `POD_SETS_ANNOTATION` (the mark). So the mark has no hash of the pod sets yet, and
can't show whether the job has changed. The operator compares the Workload with the job once. It compares all fields
that Kueue uses to count pods and to find places for them. Then it writes the mark for the present job. The stored pod
sets and the job's pod sets can't be compared for exact equality: Kueue has written the values of the admission into the
templates of an admitted job, an API server adds defaults, and quantities may be written in different forms.
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
"""Members of a pod's spec that Kueue counts, or that determine the pod's node. The comparison has separate rules for
all other members.
"""

_WISHES = ("required", "preferred", "podSetGroupName", "podSetSliceRequiredTopology", "podSetSliceSize")

_encode = msgspec.json.Encoder(order="sorted").encode


def agree(asked: Sequence[Json], needed: Sequence[Json], found: Mapping[str, Placement]) -> bool:
    """Return whether the pod sets in a Workload's request are the pod sets that the job needs.

    `found` has, for each set, the values that Kueue added when it admitted the set. The job's templates, from which
    `needed` is made, may already contain these values. Such a difference does not count.
    """
    if [(pod_set.get("name"), pod_set.get("count", 1)) for pod_set in asked] != [
        (pod_set["name"], pod_set["count"]) for pod_set in needed
    ]:
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
    tolerates, tolerated = (set(map(_encode, spec.get("tolerations") or ())) - given for spec in (now, had))
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
    """Return the requests of a pod: for each container, and for the pod as a whole."""
    containers = [
        (kind, container.get("name"), container.get("restartPolicy"), _amounts(container))
        for kind in ("initContainers", "containers")
        for container in spec.get(kind) or ()
    ]
    return [*containers, _amounts(spec)]


def _amounts(owner: Json) -> Json:
    """Return the requests of a container or a pod.

    If there is a limit but no request, the limit counts as the request, as in every cluster.
    """
    resources = owner.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**{name: _amount(value) for name, value in asked.items()}, "claims": resources.get("claims") or []}


def _amount(value: object) -> object:
    try:
        return parse_quantity(value)
    except ValueError:
        return value


def _wishes(pod_set: Json, place: Placement) -> Json:
    """Return the topology requests of a pod set.

    The member `unconstrained` is left out if Kueue has assigned nodes by a topology (`place.gated`): Kueue adds this
    member itself to a pod set whose template requests no topology.
    """
    wish = pod_set.get("topologyRequest") or {}
    wishes = {name: wish[name] for name in _WISHES if wish.get(name)}
    return wishes if place.gated or not wish.get("unconstrained") else wishes | {"unconstrained": True}


def _without_empty(value: Any) -> Any:
    """Return the value without empty members: Go programs may write such a member as `[]`, or leave it out."""
    if isinstance(value, dict):
        members = {name: _without_empty(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, {}, [], "")} or None
    if isinstance(value, list):
        return [_without_empty(item) for item in value] or None
    return value
