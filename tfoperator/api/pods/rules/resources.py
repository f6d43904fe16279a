"""The rules for resources: names, amounts, and the relation between limits and requests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction

from tfoperator.api.fields.quantity import format_quantity, parse_signed_quantity
from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.faults import (
    Faults,
    Json,
    by_rule,
    choice,
    duplicate,
    forbidden,
    invalid,
    items,
    not_found,
    part,
    required,
    text,
)

HUGE_PAGES = "hugepages-"
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD = _OF_CONTAINERS | {
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims",
    "storage", "requests.storage", "services.nodeports", "services.loadbalancers",
    *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS),
}  # fmt: skip
_COUNTED = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
     "services.nodeports", "services.loadbalancers"}
)  # fmt: skip


def amount(value: object) -> Fraction:
    """Return a quantity as API servers store it: rounded up to thousandths."""
    exact = parse_signed_quantity(value.strip() if isinstance(value, str) else value)
    return Fraction(-(-exact * 1000 // 1), 1000)


def is_native(name: str) -> bool:
    """Return whether a resource is Kubernetes' own, not a device or another extended resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Return whether a resource is extended, such as nvidia.com/gpu.

    An extended resource needs whole numbers, and its request and its limit must be equal.
    """
    if is_native(name) or name.startswith("requests."):
        return False
    return not name_rules.qualified_name(f"requests.{name}")


def resource_faults(path: str, resources: Json, claims: Collection[str], *, of_pod: bool = False) -> Faults:
    """Yield the faults of the limits, requests and claims at `path`, which belong to a container or (`of_pod`) a pod.

    `claims` has the names of the device claims that the pod defines.
    """
    limits, requests = _amounts(resources, "limits"), _amounts(resources, "requests")
    name_rule = _pod_name_faults if of_pod else _container_name_faults
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, quantity in amounts.items():
            yield from _amount_faults(f"{path}.{kind}[{name}]", name, quantity, name_rule)
    for name, quantity in requests.items():
        yield from _beside_limit(path, name, quantity, limits)
    names = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        yield forbidden(path, "huge pages need cpu or memory, too")
    yield from _claim_faults(f"{path}.claims", items(resources, "claims"), claims)


def _amounts(resources: Json, kind: str) -> dict[str, Fraction]:
    return {name: amount(0 if value is None else value) for name, value in part(resources, kind).items()}


def _beside_limit(path: str, name: str, request: Fraction, limits: dict[str, Fraction]) -> Faults:
    overcommit = is_native(name) and not name.startswith(HUGE_PAGES)
    shown = format_quantity(max(request, Fraction(0)), binary=True)
    if name not in limits:
        if not overcommit:
            yield required(f"{path}.limits", f"{name} needs a limit that equals its request")
    elif request != limits[name] and not overcommit:
        yield invalid(f"{path}.requests", shown, f"must equal the limit of {name}")
    elif request > limits[name]:
        yield invalid(f"{path}.requests", shown, f"must not be more than the limit of {name}")


def _amount_faults(field: str, name: str, quantity: Fraction, name_rule: Callable[[str, str], Faults]) -> Faults:
    yield from name_rule(field, name)
    shown = float(quantity)
    if quantity < 0:
        yield invalid(field, shown, "must be greater than or equal to 0")
    if (name in _COUNTED or is_extended(name)) and quantity.denominator != 1:
        yield invalid(field, shown, "must be a whole number")
    if name.startswith(HUGE_PAGES) and not _is_multiple(quantity, name.removeprefix(HUGE_PAGES)):
        yield invalid(field, shown, f"must be a multiple of {name.removeprefix(HUGE_PAGES)}")


def _is_multiple(quantity: Fraction, page: str) -> bool:
    try:
        size = amount(page)
    except ValueError:
        return False
    return size > 0 and size.denominator == 1 and -(-quantity // 1) % size == 0


def _name_faults(field: str, name: str) -> Faults:
    if problem := name_rules.qualified_name(name):
        yield invalid(field, name, problem)
    elif "/" not in name and name not in _STANDARD and not name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
        yield invalid(field, name, "must be a resource of Kubernetes, or a name with a domain, such as nvidia.com/gpu")


def _container_name_faults(field: str, name: str) -> Faults:
    yield from _name_faults(field, name)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not name.startswith(HUGE_PAGES):
            yield invalid(
                field, name, "must be cpu, memory, ephemeral-storage, hugepages-SIZE, or a resource with a domain"
            )
    elif not is_native(name) and not is_extended(name):
        yield invalid(field, name, "must be the name of an extended resource")


def _pod_name_faults(field: str, name: str) -> Faults:
    faults = list(_name_faults(field, name))
    yield from faults
    if not faults and not name.startswith(HUGE_PAGES):
        yield from choice(field, name, ("cpu", "memory"))


def _claim_faults(path: str, claims: Collection[Json], of_pod: Collection[str]) -> Faults:
    seen_keys: set[str] = set()
    for position, claim in enumerate(claims):
        at, name, request = f"{path}[{position}]", text(claim, "name"), text(claim, "request")
        if not name:
            yield required(at)
            continue
        if name in seen_keys:
            yield duplicate(at, name)
        else:
            key = f"{name}/{request}" if request else name
            if request:
                yield from by_rule(f"{at}.request", request, name_rules.dns_label)
            if key in seen_keys or (not request and any(requested.startswith(f"{name}/") for requested in seen_keys)):
                yield duplicate(at, key)
            seen_keys.add(key)
        if name not in of_pod:
            yield not_found(at, name, "must be one of resourceClaims of the pod")


def consistency_faults(spec: Json, path: str) -> Faults:
    """Yield the faults of the resources of a whole pod (at `path`) in relation to the resources of its containers."""
    of_pod = {kind: _amounts(part(spec, "resources"), kind) for kind in ("limits", "requests")}
    for name, total in container_sums(spec, "requests").items():
        if name in of_pod["requests"] and total > of_pod["requests"][name]:
            yield invalid(
                f"{path}.requests[{name}]", float(of_pod["requests"][name]), "must be as much as containers request"
            )
    for name, total in container_sums(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name in of_pod["limits"] and total > of_pod["limits"][name]:
            yield invalid(
                f"{path}.limits[{name}]", float(of_pod["limits"][name]), "must be as much as the limits of containers"
            )
    for position, container in enumerate(items(spec, "containers")):
        for name, limit in _amounts(part(container, "resources"), "limits").items():
            if name in of_pod["limits"] and limit > of_pod["limits"][name]:
                field = f"{path}.containers[{position}][{name}].limits"
                yield invalid(field, float(limit), "must not be more than the limit of the pod")


def container_sums(spec: Json, kind: str) -> dict[str, Fraction]:
    """Return the limits or requests of a pod at its most demanding moment.

    At that moment either all containers run together, or one init container runs together with the sidecars that have
    started.
    """
    totals: dict[str, Fraction] = {}
    for container in items(spec, "containers"):
        _add(totals, _with_requests(container, kind))
    sidecars: dict[str, Fraction] = {}
    highest: dict[str, Fraction] = {}
    for container in items(spec, "initContainers"):
        needs = _with_requests(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, needs)
            needs = dict(sidecars)
            _add(totals, _with_requests(container, kind))
        else:
            _add(needs, sidecars)
        for name, value in needs.items():
            highest[name] = max(value, highest.get(name, value))
    return {name: max(totals.get(name, Fraction(0)), highest.get(name, Fraction(0))) for name in {*totals, *highest}}


def _with_requests(container: Json, kind: str) -> dict[str, Fraction]:
    resources = part(container, "resources")
    limits = _amounts(resources, "limits")
    return limits if kind == "limits" else {**limits, **_amounts(resources, "requests")}


def _add(totals: dict[str, Fraction], needs: dict[str, Fraction]) -> None:
    for name, value in needs.items():
        totals[name] = totals.get(name, Fraction(0)) + value
