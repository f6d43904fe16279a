"""The effect of a DELETE: remove the object, or mark it and wait for its grace period and finalizers. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from tfoperator.kube.views.objects import timestamp
from tfoperator.local.apiserver.errors import bad_request, conflict, invalid, not_supported
from tfoperator.local.apiserver.members import Json, put_list
from tfoperator.local.apiserver.resource_types import NAMESPACES, ResourceType
from tfoperator.local.apiserver.storage.store import StoredObject

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
_MAX_GRACE = 2**31 - 1
"""Seconds; with more, a date could not be represented."""
_FINALIZER_OF = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER, "Background": None}


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    """Conditions for a deletion."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """`meta/v1 DeleteOptions`, as sent in the body or in query parameters."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None

    @property
    def policy(self) -> str:
        """Background, Foreground or Orphan; empty when the request has no policy."""
        if self.propagation_policy:
            return self.propagation_policy
        if self.orphan_dependents is None:
            return ""
        return "Orphan" if self.orphan_dependents else "Background"

    def check(self, resource: ResourceType, current: StoredObject) -> None:
        """Raise StatusError for options that contradict each other or the object."""
        if self.propagation_policy and self.orphan_dependents is not None:
            raise bad_request("orphanDependents and deletionPropagation cannot be both set")
        name = current.metadata["name"]
        if self.policy not in ("", *_FINALIZER_OF):
            problem = not_supported("propagationPolicy", self.policy, ("Foreground", "Background", "Orphan", "nil"))
            raise invalid(resource, name, [problem])
        wanted = self.preconditions or Preconditions()
        for what, field, value in (
            ("UID", "uid", wanted.uid),
            ("ResourceVersion", "resourceVersion", wanted.resource_version),
        ):
            if value is not None and value != current.metadata[field]:
                raise conflict(
                    resource,
                    name,
                    f"Precondition failed: {what} in precondition: {value}, "
                    f"{what} in object meta: {current.metadata[field]}",
                )


class Deletion(msgspec.Struct, frozen=True):
    """The decision: remove the object or store `obj`; neither if it is already being deleted this way."""

    remove: bool = False
    obj: Json | None = None


def plan_deletion(
    resource: ResourceType, current: StoredObject, options: DeleteOptions, grace: int, now: datetime
) -> Deletion:
    """Plan one DELETE. `grace` is the period in seconds, by the rules of the kind; 0 means at once."""
    new = current.copy()
    metadata = new["metadata"]
    grace = min(grace, _MAX_GRACE)
    if options.policy:
        others = [f for f in metadata.get("finalizers") or () if f not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
        own = _FINALIZER_OF[options.policy]
        put_list(metadata, "finalizers", [*others, own] if own else others)
    deleting = "deletionTimestamp" in metadata
    if deleting:
        _shorten(metadata, grace, now)
    else:
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    if resource == NAMESPACES and not deleting:
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}
    held = metadata.get("finalizers") or (resource == NAMESPACES and new["spec"].get("finalizers"))
    if metadata["deletionGracePeriodSeconds"] == 0 and not held:
        return Deletion(remove=True, obj=new if deleting or grace else current.copy())
    return Deletion(obj=None if new == current.obj else new)


def _shorten(metadata: Json, grace: int, now: datetime) -> None:
    """Apply a second DELETE, which can only shorten the grace period.

    If the shorter period is already over, the deletion is due now. A graceful deletion then gets the shortest period.
    """
    left = metadata.get("deletionGracePeriodSeconds") or 0
    if grace < left:
        end = datetime.fromisoformat(metadata["deletionTimestamp"]).astimezone(UTC) - timedelta(seconds=left - grace)
        if end < now:
            end, grace = now, min(grace, 1)
        metadata["deletionTimestamp"] = timestamp(end)
        metadata["deletionGracePeriodSeconds"] = grace
