"""The live state of everything the operator looks after, as cheaply as an API server can tell it.

Three lists (TFJobs, pods, services; a fourth of PodGroups where there is a gang scheduler), paged, of metadata only and
selected by our label; what is kept of an object is its UID and resourceVersion. One look serves every job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tfoperator.api.names import MANAGED_SELECTOR
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import Selection, list_pages
from tfoperator.kube.errors import ForbiddenError
from tfoperator.kube.objects import decode_partial
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient
from tfoperator.reconciler.compare import Version


class LiveObjects(msgspec.Struct, frozen=True):
    """One resource: the objects by the UID of their controller ("" for none) and key, and the list's version."""

    resource_version: str
    by_owner: dict[str, dict[str, Version]]

    def of(self, owner_uid: str) -> dict[str, Version]:
        """The objects that this owner controls."""
        return self.by_owner.get(owner_uid, {})


class LiveState(msgspec.Struct, frozen=True):
    """One look. `jobs` are by key, all under the owner ""; `owned` are what jobs own, by the resource's plural.

    Of namespaces that are `closed` nothing is known: we have no right to read them (any more).
    """

    jobs: LiveObjects
    owned: dict[str, LiveObjects]
    closed: frozenset[str] = frozenset()


def look(
    client: ApiClient,
    namespaces: Sequence[str],
    owned: Sequence[Resource],
    *,
    stopped: Callable[[], bool],
    keep: Callable[[str], bool] = lambda _: True,
) -> LiveState | None:
    """Read the live state of these namespaces ("" is all of them). None if stopped meanwhile. Raises KubeError.

    A namespace that we may not read, because it was deleted with our role in it perhaps, keeps no other from being
    looked at; ForbiddenError is raised if there is no other. Of the objects only those count whose namespaces `keep`
    wants, as in the caches.
    """
    looks: list[tuple[LiveObjects, dict[str, LiveObjects]]] = []
    closed: set[str] = set()
    for namespace in namespaces:
        try:
            one = _look_into(client, namespace, owned, stopped, keep)
        except ForbiddenError:
            closed.add(namespace)
            if len(closed) == len(namespaces):
                raise
            continue
        if one is None:
            return None
        looks.append(one)
    jobs = _joined([jobs for jobs, _ in looks])
    found = {resource.plural: _joined([found[resource.plural] for _, found in looks]) for resource in owned}
    return LiveState(jobs, found, frozenset(closed))


def _look_into(
    client: ApiClient,
    namespace: str,
    owned: Sequence[Resource],
    stopped: Callable[[], bool],
    keep: Callable[[str], bool],
) -> tuple[LiveObjects, dict[str, LiveObjects]] | None:
    jobs = _list(client, TFJOBS, namespace, "", keep)
    found: dict[str, LiveObjects] = {}
    for resource in owned:
        if stopped():
            return None
        found[resource.plural] = _list(client, resource, namespace, MANAGED_SELECTOR, keep)
    return jobs, found


def _joined(parts: Sequence[LiveObjects]) -> LiveObjects:
    if len(parts) == 1:
        return parts[0]
    by_owner: dict[str, dict[str, Version]] = {}
    for part in parts:
        for owner, objects in part.by_owner.items():
            by_owner.setdefault(owner, {}).update(objects)
    # The first list's version is the safe one: what is newer than it may or may not be in a later list.
    return LiveObjects(parts[0].resource_version, by_owner)


def _list(
    client: ApiClient, resource: Resource, namespace: str, selector: str, keep: Callable[[str], bool]
) -> LiveObjects:
    by_owner: dict[str, dict[str, Version]] = {}
    version = ""
    selection = Selection(label_selector=selector)
    for page in list_pages(client, resource, namespace, decode_partial, selection, metadata_only=True):
        version = version or page.resource_version
        for item in page.items:
            meta = item.metadata
            if not keep(meta.namespace):
                continue
            owner = meta.controller if resource is not TFJOBS else None
            group = by_owner.setdefault(owner.uid if owner is not None else "", {})
            group[meta.key] = Version(meta.uid, meta.resource_version)
    return LiveObjects(version, by_owner)
