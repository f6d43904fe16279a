"""Creates, updates and deletes objects of all kinds. The rules are checked in kube-apiserver's order.

A write is checked completely before anything is stored, so a write that is rejected has no effect. A write that changes
nothing keeps the resourceVersion and causes no event. Use `Registry` only in the server's event loop, like the store.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping

import msgspec

from tfoperator.api.pods import name_rules
from tfoperator.base.clock import Clock
from tfoperator.kube.views.objects import timestamp
from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.members import Json, content_of
from tfoperator.local.apiserver.objects.field_managers import Owned, Owner, after_update, managed_fields
from tfoperator.local.apiserver.objects.field_sets import Layout, builtin_layout
from tfoperator.local.apiserver.objects.json_types import check_types
from tfoperator.local.apiserver.objects.metadata import (
    carry_over,
    check_identity,
    generated_name,
    validate_metadata,
    validate_metadata_update,
)
from tfoperator.local.apiserver.objects.strategies import Strategy
from tfoperator.local.apiserver.registry.deletion import DeleteOptions, plan_deletion
from tfoperator.local.apiserver.resource_types import NAMESPACES, PODS, SERVICE_ACCOUNTS, ResourceType
from tfoperator.local.apiserver.storage.store import Store, StoredObject

DEFAULT_ACCOUNT = "default"
"""The service account that each namespace has."""
_NAME_ATTEMPTS = 8  # as in kube-apiserver, before it reports that the generated name exists


class WriteOptions(msgspec.Struct, frozen=True):
    """The query parameters of a write.

    `strict` rejects unknown fields. `silent` removes unknown fields without a warning. `manager` is the writer's name
    for server-side apply; with `force`, an apply takes fields from other owners.
    """

    dry_run: bool = False
    strict: bool = False
    silent: bool = False
    manager: str = ""
    force: bool = False


class WriteResult(msgspec.Struct, frozen=True):
    """The result of a write: the object's new state (if `removed`, its last state), and warnings for the client."""

    stored: StoredObject
    warnings: tuple[str, ...] = ()
    removed: bool = False


class Registry:
    """Creates, updates and deletes objects. Code that only reads lists uses the store directly."""

    def __init__(
        self, store: Store, strategies: Mapping[ResourceType, Strategy], *, clock: Clock, rng: random.Random
    ) -> None:
        """Initialize. `strategies` has a strategy for each resource type of the store."""
        self._store = store
        self._strategies = strategies
        self._clock = clock
        self._rng = rng

    @property
    def resources(self) -> tuple[ResourceType, ...]:
        """All resource types that the server serves."""
        return tuple(self._strategies)

    def layout(self, resource: ResourceType) -> Layout:
        """Return the properties of a kind's schema that server-side apply needs."""
        return self._strategies[resource].layout or builtin_layout(resource.kind)

    def find(self, resource: ResourceType, namespace: str, name: str) -> StoredObject | None:
        """Return an object; None if it does not exist."""
        return self._store.get(resource, resource.key(namespace, name))

    def get(self, resource: ResourceType, namespace: str, name: str) -> StoredObject:
        """Return an object. Raises StatusError 404."""
        stored = self.find(resource, namespace, name)
        if stored is None:
            raise errors.not_found(resource, name)
        return stored

    def create(
        self, resource: ResourceType, namespace: str, obj: Json, options: WriteOptions, *, owned: Owned | None = None
    ) -> WriteResult:
        """Store a new object. `owned` contains the owners of its fields, if an apply creates it."""
        strategy = self._strategies[resource]
        check_types(resource, obj)
        check_identity(resource, namespace, "", obj)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        self._admit_into_namespace(resource, namespace, metadata.get("name") or "")
        warnings = self._prune(resource, strategy, obj, options)
        self._name(resource, namespace, metadata)
        metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = timestamp(self._clock.now())
        if resource.generation:
            metadata["generation"] = 1
        else:
            metadata.pop("generation", None)
        strategy.prepare_create(obj)
        self._admit_account(resource, namespace, obj)
        problems = [*validate_metadata(obj, strategy), *strategy.validate(obj, None)]
        if problems:
            raise errors.invalid(resource, metadata.get("name", ""), problems)
        if owned is not None:
            now = timestamp(self._clock.now())
            metadata["managedFields"] = managed_fields(owned, (), resource.api_version, now)
        key = resource.key(namespace, metadata["name"])
        if self._store.get(resource, key) is not None:
            raise errors.already_exists(resource, metadata["name"])
        if options.dry_run:
            return WriteResult(StoredObject(key, obj, self._store.revision), warnings)
        return WriteResult(self._store.create(resource, key, obj), warnings)

    def update(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        change: Callable[[StoredObject], Json],
        options: WriteOptions,
        *,
        subresource: str = "",
        patch: bool = False,
        owned: Owned | None = None,
    ) -> WriteResult:
        """Replace an object by the result of `change`, which gets the current version.

        `patch` means that the request is a PATCH. In a PATCH, the UID is a part of the object, not a precondition. So a
        different UID is an invalid value, not a conflict, unless the update ignores the metadata in the request.
        With `subresource`, as for a write to `/status`, take only the changes that `Strategy.prepare_status_update`
        allows. `owned` contains the owners of the new version's fields, if an apply writes it.
        """
        current = self.get(resource, namespace, name)
        strategy = self._strategies[resource]
        new, old = change(current), current.obj
        given = (new.get("metadata") or {}).get("managedFields")
        check_types(resource, new)
        check_identity(resource, namespace, name, new)
        if not patch:
            self._check_precondition(resource, new, current)
        self._check_version(resource, new, current)
        warnings = self._prune(resource, strategy, new, options)
        if subresource:
            strategy.prepare_status_update(new, old)
        else:
            strategy.prepare_update(new, old)
        problems = list(_uid_problems(new, old))
        carry_over(new, old)
        problems += [
            *validate_metadata(new, strategy),
            *validate_metadata_update(new, old),
            *strategy.validate(new, old),
        ]
        if problems:
            raise errors.invalid(resource, name, problems)
        if resource.generation and not subresource and content_of(new) != content_of(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if owned is None and "managedFields" in old["metadata"]:
            writer = Owner(options.manager or "unknown", subresource=subresource)
            owned = after_update(old, new, given, writer, self.layout(resource))
        if owned is not None:
            before, now = old["metadata"].get("managedFields") or (), timestamp(self._clock.now())
            new["metadata"]["managedFields"] = managed_fields(owned, before, resource.api_version, now)
        return self._store_update(resource, current, new, options, warnings)

    def delete(self, resource: ResourceType, namespace: str, name: str, options: DeleteOptions) -> WriteResult:
        """Remove an object. If the object has a grace period or finalizers, only set its `deletionTimestamp`."""
        current = self.get(resource, namespace, name)
        options.check(resource, current)
        strategy = self._strategies[resource]
        grace = strategy.grace_period(current.obj, options.grace_period_seconds)
        plan = plan_deletion(resource, current, options, grace, self._clock.now())
        if plan.remove:
            if options.dry_run:
                return WriteResult(current, removed=True)
            return WriteResult(self._store.delete(resource, current.key, plan.obj), removed=True)
        if plan.obj is None or options.dry_run:
            return WriteResult(current)
        return WriteResult(self._store.update(resource, current.key, plan.obj))

    def finalize_namespace(self, name: str, body: Json) -> WriteResult:
        """Handle PUT namespaces/{name}/finalize. Only `spec.finalizers` is taken from the request."""
        current = self.get(NAMESPACES, "", name)
        check_types(NAMESPACES, body)
        check_identity(NAMESPACES, "", name, body)
        self._check_precondition(NAMESPACES, body, current)
        self._check_version(NAMESPACES, body, current)
        new = current.copy()
        new["spec"] = {"finalizers": list((body.get("spec") or {}).get("finalizers") or ())}
        return self.finalize(NAMESPACES, current, new)

    def finalize(self, resource: ResourceType, current: StoredObject, new: Json) -> WriteResult:
        """Store an update that the server itself makes, for example after it removed a finalizer.

        If the object can be removed after this update (see `_nothing_holds`), remove it.
        """
        return self._store_update(resource, current, new, WriteOptions(), ())

    def _store_update(
        self,
        resource: ResourceType,
        current: StoredObject,
        new: Json,
        options: WriteOptions,
        warnings: tuple[str, ...],
    ) -> WriteResult:
        new["metadata"]["resourceVersion"] = current.metadata["resourceVersion"]
        if new == current.obj:
            return WriteResult(current, warnings)
        ended = _nothing_holds(new)
        if options.dry_run:
            return WriteResult(StoredObject(current.key, new, current.revision), warnings, removed=ended)
        if ended:
            return WriteResult(self._store.delete(resource, current.key, new), warnings, removed=True)
        return WriteResult(self._store.update(resource, current.key, new), warnings)

    def _prune(self, resource: ResourceType, strategy: Strategy, obj: Json, options: WriteOptions) -> tuple[str, ...]:
        unknown = strategy.prune(obj)
        if unknown and options.strict:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise errors.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {listed}"
            )
        return () if options.silent else tuple(f'unknown field "{path}"' for path in unknown)

    def _admit_into_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        home = self._store.get(NAMESPACES, namespace)
        if home is None:
            raise errors.not_found(NAMESPACES, namespace)
        if home.metadata.get("deletionTimestamp"):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise StatusError(
                403,
                "Forbidden",
                f'{resource.qualified} "{name}" is forbidden: unable to create new content in namespace '
                f"{namespace} because it is being terminated",
                details=errors.details_of(resource, name, causes=[cause]),
            )

    def _admit_account(self, resource: ResourceType, namespace: str, obj: Json) -> None:
        """Refuse a pod whose service account does not exist, as the admission plugin ServiceAccount does.

        A pod may use the account `default` even if a client has deleted this account, because the account is created
        again at once.
        """
        account = obj["spec"].get("serviceAccountName") if resource is PODS else None
        if not account or account == DEFAULT_ACCOUNT or name_rules.dns_subdomain(account):
            return
        if self._store.get(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.key(namespace, account)) is None:
            name = obj["metadata"].get("name", "")
            raise StatusError(
                403,
                "Forbidden",
                f'pods "{name}" is forbidden: error looking up service account {namespace}/{account}: serviceaccount '
                f'"{account}" not found',
                details=errors.details_of(PODS, name),
            )

    def _name(self, resource: ResourceType, namespace: str, metadata: Json) -> None:
        """Generate a name from generateName if the object has no name.

        If the name is in use, generate another, up to `_NAME_ATTEMPTS` times. If all these names are in use, keep the
        last: the create then fails with 409.
        """
        base = metadata.get("generateName")
        if metadata.get("name") or not base:
            return
        for _ in range(_NAME_ATTEMPTS):
            metadata["name"] = generated_name(base, self._rng)
            if self._store.get(resource, resource.key(namespace, metadata["name"])) is None:
                return

    def _check_precondition(self, resource: ResourceType, new: Json, current: StoredObject) -> None:
        uid, expected, name = new["metadata"].get("uid"), current.metadata["uid"], current.metadata["name"]
        if uid and uid != expected:
            raise errors.conflict(
                resource, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {expected}"
            )

    def _check_version(self, resource: ResourceType, new: Json, current: StoredObject) -> None:
        revision, name = new["metadata"].get("resourceVersion"), current.metadata["name"]
        if not revision or revision == "0":
            if not resource.unconditional_update:
                raise errors.without_version(resource, name)
        elif revision != current.metadata["resourceVersion"]:
            raise errors.conflict(resource, name)


def _uid_problems(new: Json, old: Json) -> Iterable[errors.FieldProblem]:
    uid = new["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"]:
        yield errors.invalid_value("metadata.uid", uid, "field is immutable")


def _nothing_holds(obj: Json) -> bool:
    """Return whether an object can be removed.

    The object can be removed if it is being deleted, its grace period is over, and it has no finalizers.
    """
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds"):
        return False
    spec_finalizers = obj["kind"] == "Namespace" and obj["spec"].get("finalizers")
    return not metadata.get("finalizers") and not spec_finalizers
