"""The differences between kinds in a write: defaults, fields that a write may change, validation, grace period.

The general rules are in `registry`, which calls a strategy at fixed points of a create, an update and a delete, as
kube-apiserver does with its own registry strategies. A strategy changes only the object that it gets as an argument.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable, Iterator

from tfoperator.api.pods import name_rules
from tfoperator.local.apiserver.errors import FieldProblem, forbidden, invalid_value
from tfoperator.local.apiserver.members import Json, keep
from tfoperator.local.apiserver.objects.builtin_fields import drop_unknown_fields
from tfoperator.local.apiserver.objects.config_data import config_map_problems, secret_problems
from tfoperator.local.apiserver.objects.defaults import (
    default_deployment,
    default_pod,
    default_service,
    initial_pod_status,
)
from tfoperator.local.apiserver.objects.events import newer_event_problems
from tfoperator.local.apiserver.objects.field_sets import Layout
from tfoperator.local.apiserver.objects.pod_validation import (
    validate_deployment,
    validate_deployment_update,
    validate_pod,
    validate_pod_update,
    validate_service,
    validate_service_update,
)
from tfoperator.local.apiserver.resource_types import BUILTIN, NEWER_EVENTS, ResourceType


class Strategy:
    """The behaviour of a kind without special rules. Other strategies override its methods."""

    name_rule: Callable[[str], str] = staticmethod(name_rules.dns_subdomain)
    """Returns the problem of a name of this kind, or an empty string."""
    layout: Layout | None = None
    """The properties of a custom kind's schema that server-side apply needs. None for a built-in kind."""

    def prune(self, obj: Json) -> list[str]:
        """Remove the fields that the object's kind does not have, in place. Return the paths of these fields."""
        group = obj["apiVersion"].rpartition("/")[0]
        return drop_unknown_fields(f"{obj['kind']}.{group}" if group else obj["kind"], obj)

    def prepare_create(self, obj: Json) -> None:
        """Set the defaults of a new object, and fields that only the server sets."""

    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:  # noqa: ARG002 - a hook
        """Return the problems of a defaulted object; `old` is the version that an update replaces, None in a create."""
        return ()

    def prepare_update(self, new: Json, old: Json) -> None:
        """Undo the changes that a write to the object's own path ignores (the status, for example), and set defaults
        again.
        """

    def prepare_status_update(self, new: Json, old: Json) -> None:
        """Undo the changes that /status ignores. Only the status, and metadata except `ownerReferences`, may change."""
        status = new.get("status")
        for field in (set(new) | set(old)) - {"metadata", "status"}:
            keep(new, old, field)
        keep(new["metadata"], old["metadata"], "ownerReferences")
        if status is None:
            new.pop("status", None)

    def grace_period(self, obj: Json, requested: int | None) -> int:  # noqa: ARG002 - a hook
        """Return the seconds between a DELETE and the removal. 0 means that the object is removed at once.

        `requested` is the grace period in the DELETE, or None. Only kinds with a grace period, such as pods, use it.
        """
        return 0


def _section(obj: Json, field: str) -> None:
    """Set a section such as `spec` to {} if it is absent or null: Go's structs always have all their fields."""
    if obj.get(field) is None:
        obj[field] = {}


class _SpecAndStatus(Strategy):
    """A kind whose status can be changed only through /status. The subclasses differ only in the attributes and methods
    below.
    """

    problems: Callable[[Json], Iterable[FieldProblem]] = staticmethod(lambda _: ())
    """Yields the problems of a defaulted object."""

    update_problems: Callable[[Json, Json], Iterable[FieldProblem]] = staticmethod(lambda _new, _old: ())
    """Yields the problems of an update. The arguments are the new and the old version."""

    def default(self, obj: Json, /) -> None:
        """Set the defaults of the spec."""

    def initial_status(self, obj: Json) -> Json:  # noqa: ARG002 - a hook
        """Return the status of a new object."""
        return {}

    def prepare_create(self, obj: Json) -> None:
        _section(obj, "spec")
        self.default(obj)
        obj["status"] = self.initial_status(obj)

    def prepare_update(self, new: Json, old: Json) -> None:
        _section(new, "spec")
        self.default(new)
        keep(new, old, "status")

    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:
        yield from self.problems(obj)
        if old is not None:
            yield from self.update_problems(obj, old)


class _PodStrategy(_SpecAndStatus):
    default = staticmethod(default_pod)
    problems = staticmethod(validate_pod)
    update_problems = staticmethod(validate_pod_update)

    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:
        # An unchanged spec is not validated again: it may have been stored before a rule was added.
        return () if old is not None and obj["spec"] == old["spec"] else super().validate(obj, old)

    def initial_status(self, obj: Json) -> Json:
        return initial_pod_status(obj["spec"])

    def grace_period(self, obj: Json, requested: int | None) -> int:
        spec, phase = obj["spec"], (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0  # the pod has no process to wait for
        period = requested if requested is not None else spec["terminationGracePeriodSeconds"]
        return int(period) if period >= 0 else 1


class _ServiceStrategy(_SpecAndStatus):
    name_rule = staticmethod(name_rules.dns_label)
    problems = staticmethod(validate_service)
    update_problems = staticmethod(validate_service_update)

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng  # chooses cluster addresses

    def default(self, obj: Json, /) -> None:
        default_service(obj, self._rng)

    def initial_status(self, obj: Json) -> Json:  # noqa: ARG002 - the hook's signature
        return {"loadBalancer": {}}

    def prepare_update(self, new: Json, old: Json) -> None:
        _section(new, "spec")
        for field in ("clusterIP", "clusterIPs"):
            # In an update, the service keeps its address if the manifest has none.
            if not new["spec"].get(field) and field in old["spec"]:
                new["spec"][field] = old["spec"][field]
        super().prepare_update(new, old)


class _DeploymentStrategy(_SpecAndStatus):
    default = staticmethod(default_deployment)
    problems = staticmethod(validate_deployment)
    update_problems = staticmethod(validate_deployment_update)


class _NamespaceStrategy(Strategy):
    name_rule = staticmethod(name_rules.dns_label)

    def prepare_create(self, obj: Json) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        labels = obj["metadata"].get("labels") or {}
        obj["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": obj["metadata"].get("name", "")}

    def prepare_update(self, new: Json, old: Json) -> None:
        keep(new, old, "spec")
        keep(new, old, "status")


class _ClaimStrategy(_SpecAndStatus):
    """The rules of PersistentVolumeClaims.

    A claim is bound as soon as it exists: the node agent makes a directory for every claim that a pod uses.
    """

    def initial_status(self, obj: Json) -> Json:  # noqa: ARG002 - the hook's signature
        return {"phase": "Bound"}


class _NodeStrategy(_SpecAndStatus):
    def initial_status(self, obj: Json) -> Json:
        return obj.get("status") or {}


class _SecretStrategy(Strategy):
    def prepare_create(self, obj: Json) -> None:
        _encode_string_data(obj)
        obj["type"] = obj.get("type") or "Opaque"

    def prepare_update(self, new: Json, old: Json) -> None:  # noqa: ARG002 - the hook's signature
        _encode_string_data(new)
        new["type"] = new.get("type") or "Opaque"

    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:
        yield from secret_problems(obj)
        if old is not None:
            if obj["type"] != old["type"]:
                yield invalid_value("type", obj["type"], "field is immutable")
            yield from _immutable_data(obj, old)


def _encode_string_data(secret: Json) -> None:
    plain = secret.pop("stringData", None) or {}
    if plain:
        encoded = {name: base64.b64encode(value.encode()).decode() for name, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


class _ConfigMapStrategy(Strategy):
    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:
        yield from config_map_problems(obj)
        if old is not None:
            yield from _immutable_data(obj, old)


def _immutable_data(new: Json, old: Json) -> Iterable[FieldProblem]:
    if old.get("immutable"):
        for field in ("data", "binaryData", "immutable"):
            if new.get(field) != old.get(field):
                yield forbidden(field, "field is immutable when `immutable` is set")


class _EventStrategy(Strategy):
    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:  # noqa: ARG002 - a hook
        regarding = (obj.get("involvedObject") or {}).get("namespace") or ""
        namespace = obj["metadata"]["namespace"]
        # An event about a cluster-scoped object is in `default`.
        if regarding != namespace and not (regarding == "" and namespace == "default"):
            yield invalid_value("involvedObject.namespace", regarding, "does not match event.namespace")


class _NewerEventStrategy(Strategy):
    validate = staticmethod(newer_event_problems)


_USUAL_PREEMPTION = "PreemptLowerPriority"


class _PriorityClassStrategy(Strategy):
    """The rules of PriorityClasses.

    Pods may name any class, also a class that does not exist: the node of this machine preempts no pod, so a class has
    no effect.
    """

    def prepare_create(self, obj: Json) -> None:
        obj["value"] = obj.get("value") or 0
        obj["preemptionPolicy"] = obj.get("preemptionPolicy") or _USUAL_PREEMPTION

    def prepare_update(self, new: Json, old: Json) -> None:  # noqa: ARG002 - the hook's signature
        self.prepare_create(new)

    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:
        if old is not None:
            if obj["value"] != old["value"]:
                yield forbidden("value", "may not be changed in an update.")
            if obj["preemptionPolicy"] != old["preemptionPolicy"]:
                yield invalid_value("preemptionPolicy", obj["preemptionPolicy"], "field is immutable")


def system_priority_classes() -> Iterator[Json]:
    """Yield the two PriorityClasses that exist in every cluster."""
    yield _priority_class("system-cluster-critical", 2_000_000_000, "run in the cluster")
    yield _priority_class("system-node-critical", 2_000_001_000, "not be moved from their node")


def _priority_class(name: str, value: int, rule: str) -> Json:
    description = f"Used for system critical pods that must {rule}."
    return {"metadata": {"name": name}, "value": value, "description": description}


def builtin_strategies(rng: random.Random) -> dict[ResourceType, Strategy]:
    """Return a strategy for each built-in resource type. Kinds that are not listed have no special rules."""
    by_kind: dict[str, Strategy] = {
        "Pod": _PodStrategy(),
        "Service": _ServiceStrategy(rng),
        "Deployment": _DeploymentStrategy(),
        "Namespace": _NamespaceStrategy(),
        "Node": _NodeStrategy(),
        "PersistentVolumeClaim": _ClaimStrategy(),
        "Secret": _SecretStrategy(),
        "ConfigMap": _ConfigMapStrategy(),
        "Event": _EventStrategy(),
        "PriorityClass": _PriorityClassStrategy(),
    }
    plain = Strategy()
    strategies = {resource: by_kind.get(resource.kind, plain) for resource in BUILTIN}
    return strategies | {NEWER_EVENTS: _NewerEventStrategy()}
