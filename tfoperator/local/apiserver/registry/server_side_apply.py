"""Server-side apply: a PATCH that says how an object has to be, by somebody who owns what it says."""

from __future__ import annotations

from typing import Any

from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.objects import Owner, apply, check_identity, check_types, list_keys
from tfoperator.local.apiserver.registry.registry import Registry, WriteOptions, Written
from tfoperator.local.apiserver.resource_types import ResourceType

_Dict = dict[str, Any]


def apply_configuration(
    registry: Registry, resource: ResourceType, namespace: str, name: str, wanted: _Dict, options: WriteOptions
) -> tuple[Written, bool]:
    """Make an object what a configuration says, or make it; returns what was written, and whether it is new.

    Raises StatusError: 409 for fields that others own and that would change, unless `options.force`; 422 without
    `options.manager`; and what a create or an update of the result raises.
    """
    if not options.manager:
        problem = errors.required("fieldManager", "is required for apply patch")
        raise StatusError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {problem}')
    check_types(resource, wanted)
    if (wanted.get("metadata") or {}).get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    check_identity(resource, namespace, name, wanted)
    if "status" in resource.subresources:
        wanted.pop("status", None)  # the main endpoint leaves it alone
    owner, keys = Owner(options.manager, "Apply"), list_keys(resource.kind)
    stored = registry.find(resource, namespace, name)
    if stored is None:
        if wanted["metadata"].get("uid") or wanted["metadata"].get("resourceVersion"):
            raise errors.conflict(resource, name, "the object that is to be changed does not exist")
        applied = apply(resource, None, wanted, owner, keys, force=options.force)
        return registry.create(resource, namespace, applied.obj, options, owned=applied.owned), True
    applied = apply(resource, stored.obj, wanted, owner, keys, force=options.force)
    new, owned = applied.obj, applied.owned
    return registry.update(resource, namespace, name, lambda _: new, options, patch=True, owned=owned), False
