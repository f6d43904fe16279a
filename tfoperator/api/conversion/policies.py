"""The members of the run policy that v1alpha2 has as fields, too: those that can't be changed. Pure.

What an annotation holds no rule of an API server can see. So these are carried in `spec.runPolicy` of both versions,
where the same rules hold, and an annotation that names them counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_Dict = dict[str, Any]

_MANAGED_BY = "managedBy"
_SCHEDULING = "schedulingPolicy"
_QUEUE = "queue"


def split_policy(policy: Any, moved: Iterable[str] = ()) -> tuple[_Dict, Any]:
    """Those of a run policy's members that both versions have, and the rest of it without those named in `moved`.

    The rest of something that is no object is that itself. Nothing of `policy` is changed.
    """
    if not isinstance(policy, dict):
        return {}, policy
    rest = {name: value for name, value in policy.items() if name not in (_MANAGED_BY, *moved)}
    own = {_MANAGED_BY: policy[_MANAGED_BY]} if _MANAGED_BY in policy else {}
    scheduling = rest.get(_SCHEDULING)
    if isinstance(scheduling, dict) and _QUEUE in scheduling:
        own[_SCHEDULING] = {_QUEUE: scheduling[_QUEUE]}
        rest[_SCHEDULING] = {name: value for name, value in scheduling.items() if name != _QUEUE}
        if not rest[_SCHEDULING]:
            del rest[_SCHEDULING]
    return own, rest


def overlaid(policy: Any, own: _Dict) -> _Dict:
    """A run policy, or what stands in its place, with `own` in it. Nothing of either is changed."""
    result = {**policy, **own} if isinstance(policy, dict) else own
    before = policy.get(_SCHEDULING) if isinstance(policy, dict) else None
    if isinstance(before, dict) and _SCHEDULING in own:
        result[_SCHEDULING] = {**before, **own[_SCHEDULING]}
    return result
