"""The effect of a DELETE: remove the object, or set its `deletionTimestamp`. Pure.

In the second case, the object is removed after its grace period, when it has no finalizers any more.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from tfoperator.kube.views.objects import timestamp
from tfoperator.local.apiserver.errors import conflict, invalid_options, invalid_value, not_supported
from tfoperator.local.apiserver.members import Json, put_list
from tfoperator.local.apiserver.resource_types import NAMESPACES, ResourceType
from tfoperator.local.apiserver.storage.store import StoredObject

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
_KIND = "DeleteOptions"
_MAX_GRACE = 2**31 - 1
"""The maximum grace period in seconds. With a longer period, the date of the deletion would be too large to
represent.
"""
_FINALIZER_OF = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER, "Background": None}


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    """The preconditions of a deletion."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The `meta/v1 DeleteOptions` of a request, from its body or its query parameters."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None

    @property
    def policy(self) -> str:
        """Background, Foreground or Orphan. Empty if the request has no policy."""
        if self.propagation_policy:
            return self.propagation_policy
        if self.orphan_dependents is None:
            return ""
        return "Orphan" if self.orphan_dependents else "Background"

    def check(self, resource: ResourceType, current: StoredObject) -> None:
        """Raise StatusError for options that contradict each other or the object."""
        if self.propagation_policy and self.orphan_dependents is not None:
            both = "orphanDependents and deletionPropagation cannot be both set"
            raise invalid_options(_KIND, invalid_value("propagationPolicy", self.propagation_policy, both))
        if self.dry_run not in (None, [], ["All"]):
            raise invalid_options(_KIND, not_supported("dryRun", self.dry_run, ("All",)))
        name = current.metadata["name"]
        if self.policy not in ("", *_FINALIZER_OF):
            problem = not_supported("propagationPolicy", self.policy, ("Foreground", "Background", "Orphan", "nil"))
            raise invalid_options(_KIND, problem)
        wanted = self.preconditions or Preconditions()
        for what, field, value, happened in (
            ("UID", "uid", wanted.uid, "deleted and then recreated"),
            ("ResourceVersion", "resourceVersion", wanted.resource_version, "modified"),
        ):
            if value is not None and value != current.metadata[field]:
                # kube-apiserver's message has the kind here (`Pod`), and the plural (`pods`) for other conflicts.
                raise conflict(
                    msgspec.structs.replace(resource, plural=resource.kind),
                    name,
                    f"the {what} in the precondition ({value}) does not match the {what} in record "
                    f"({current.metadata[field]}). The object might have been {happened}",
                )


class DeletionDecision(msgspec.Struct, frozen=True):
    """The decision about a DELETE.

    With `remove`, remove the object; `obj` is its last state, for the watches. Without `remove`, store `obj` as the
    object's new version. If `obj` is None, change nothing: the object is already being deleted in the same manner.
    """

    remove: bool = False
    obj: Json | None = None


def plan_deletion(
    resource: ResourceType, current: StoredObject, options: DeleteOptions, grace: int, now: datetime
) -> DeletionDecision:
    """Plan one DELETE.

    `grace` is the grace period in seconds, from `Strategy.grace_period`. 0 means that the object is removed at once,
    unless it has finalizers.
    """
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
        return DeletionDecision(remove=True, obj=new if deleting or grace else current.copy())
    return DeletionDecision(obj=None if new == current.obj else new)


def _shorten(metadata: Json, grace: int, now: datetime) -> None:
    """Apply a second DELETE. A second DELETE can only shorten the grace period.

    If the shorter period is already over, its end (`deletionTimestamp`) is set to `now`, and the grace period to 1
    second, or to 0 if the second DELETE requests 0.
    """
    left = metadata.get("deletionGracePeriodSeconds") or 0
    if grace < left:
        end = datetime.fromisoformat(metadata["deletionTimestamp"]).astimezone(UTC) - timedelta(seconds=left - grace)
        if end < now:
            end, grace = now, min(grace, 1)
        metadata["deletionTimestamp"] = timestamp(end)
        metadata["deletionGracePeriodSeconds"] = grace
