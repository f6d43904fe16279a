"""The rules for each container of a pod, and for all containers together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.environment import variable_faults
from tfoperator.api.pods.rules.faults import (
    Fault,
    Faults,
    Json,
    Kind,
    by_rule,
    choice,
    duplicate,
    forbidden,
    invalid,
    items,
    name,
    only_one,
    part,
    required,
    text,
    within,
)
from tfoperator.api.pods.rules.mounts import mount_faults
from tfoperator.api.pods.rules.probes import lifecycle_faults, probe_faults
from tfoperator.api.pods.rules.resources import resource_faults
from tfoperator.api.pods.rules.security import container_security_faults

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NEEDS_POLICY = "restartPolicyRules need it"
_MAX_RULES = 20
_MAX_EXIT_CODES = 255


class OfPod(msgspec.Struct, frozen=True):
    """The facts about a pod that a container's rules need, such as its valid volumes by name, and its device claims."""

    volumes: Mapping[str, Json]
    claims: frozenset[str]
    grace: int
    restart_policy: str
    host_users: bool


def containers_faults(spec: Json, path: str, of_pod: OfPod) -> Faults:
    """Yield the faults of all containers of the pod whose spec is at `path`."""
    containers = items(spec, "containers")
    if not containers:
        yield required(f"{path}.containers")
    names: set[str] = set()
    for position, container in enumerate(containers):
        at = f"{path}.containers[{position}]"
        yield from _container_faults(at, container, of_pod)
        yield from _unique_name(at, container, names)
        names.add(text(container, "name"))
        yield from lifecycle_faults(at, container, of_pod.grace)
        yield from probe_faults(at, container)
        yield from _restart_faults(at, container)
    yield from _host_port_faults(f"{path}.containers", containers)
    for position, container in enumerate(items(spec, "initContainers")):
        at = f"{path}.initContainers[{position}]"
        yield from _container_faults(at, container, of_pod)
        if container.get("restartPolicy") is not None:
            yield from _restart_faults(at, container)
        elif container.get("restartPolicyRules"):
            yield required(f"{at}.restartPolicy", _NEEDS_POLICY)
        yield from _unique_name(at, container, names)
        # An API server checks each init container alone, so it names position 0, whichever container it is.
        yield from _host_port_faults(f"{path}.initContainers", [container])
        yield from _init_faults(at, container, of_pod)


def _unique_name(at: str, container: Json, names: set[str]) -> Faults:
    own = text(container, "name")
    if own in names:
        yield duplicate(f"{at}.name", own)
    elif own:
        names.add(own)


def _init_faults(at: str, container: Json, of_pod: OfPod) -> Faults:
    if container.get("restartPolicy") == "Always":
        yield from lifecycle_faults(at, container, of_pod.grace)
        yield from probe_faults(at, container)
        return
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        # A lifecycle with only `stopSignal` is no fault: the feature of this field is off, so an API server drops the
        # field, and then the empty lifecycle.
        if container.get(field) is not None and only_one(container[field], container[field]) != ["stopSignal"]:
            yield forbidden(f"{at}.{field}", "must not be set for an init container without restartPolicy: Always")
    for position, policy in enumerate(items(container, "resizePolicy")):
        if policy.get("restartPolicy") == "RestartContainer":
            field = f"{at}.resizePolicy[{position}].restartPolicy"
            yield invalid(field, "RestartContainer", "must be NotRequired for an init container that ends")


def _container_faults(at: str, container: Json, of_pod: OfPod) -> Faults:
    yield from name(f"{at}.name", text(container, "name"), name_rules.dns_label)
    if not text(container, "image"):
        yield required(f"{at}.image")
    policy = text(container, "terminationMessagePolicy", "File")
    yield from choice(f"{at}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError"))
    yield from choice(f"{at}.imagePullPolicy", text(container, "imagePullPolicy", "Always"), _PULL_POLICIES)
    yield from _port_faults(at, container)
    yield from variable_faults(at, container)
    yield from mount_faults(at, container, of_pod.volumes)
    resources = part(container, "resources")
    yield from resource_faults(f"{at}.resources", resources, of_pod.claims)
    yield from _resize_faults(f"{at}.resizePolicy", container, of_pod.restart_policy)
    context = container.get("securityContext")
    yield from container_security_faults(f"{at}.securityContext", context, host_users=of_pod.host_users)


def _port_faults(at: str, container: Json) -> Faults:
    names: set[str] = set()
    for position, port in enumerate(items(container, "ports")):
        field, own = f"{at}.ports[{position}]", text(port, "name")
        faults = [*by_rule(f"{field}.name", own, name_rules.port_name)] if own else []
        if own in names:
            faults.append(duplicate(f"{field}.name", own))
        elif own and not faults:
            names.add(own)
        yield from faults
        if not port.get("containerPort"):
            yield required(f"{field}.containerPort")
        yield from within(f"{field}.containerPort", port.get("containerPort") or None, 1, 65535)
        yield from within(f"{field}.hostPort", port.get("hostPort") or None, 1, 65535)
        yield from choice(f"{field}.protocol", text(port, "protocol", "TCP"), ("SCTP", "TCP", "UDP"))


def _host_port_faults(path: str, containers: Sequence[Json]) -> Faults:
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(items(container, "ports")):
            if not port.get("hostPort"):
                continue
            place = f"{text(port, 'protocol', 'TCP')}/{text(port, 'hostIP')}/{port['hostPort']}"
            if place in taken:
                yield duplicate(f"{path}[{index}].ports[{position}].hostPort", place)
            taken.add(place)


def _resize_faults(at: str, container: Json, restart_policy: str) -> Faults:
    seen_resources: set[str] = set()
    for position, resize in enumerate(items(container, "resizePolicy")):
        resource, policy = text(resize, "resourceName"), text(resize, "restartPolicy")
        if resource in seen_resources:
            yield duplicate(f"{at}[{position}]", resource)
        seen_resources.add(resource)
        for value, options in ((resource, ("cpu", "memory")), (policy, ("NotRequired", "RestartContainer"))):
            if not value:
                yield required(at)
            else:
                yield from choice(at, value, options)
        if restart_policy == "Never" and policy != "NotRequired":
            yield invalid(at, policy, "must be NotRequired where the pod has restartPolicy: Never")


def _restart_faults(at: str, container: Json) -> Faults:
    policy, rules = container.get("restartPolicy"), items(container, "restartPolicyRules")
    if policy is not None:
        yield from choice(f"{at}.restartPolicy", policy, ("Always", "Never", "OnFailure"))
    elif rules:
        yield required(f"{at}.restartPolicy", _NEEDS_POLICY)
    if len(rules) > _MAX_RULES:
        yield Fault(f"{at}.restartPolicyRules", Kind.TOO_MANY, len(rules), f"must have at most {_MAX_RULES} items")
    for position, rule in enumerate(rules):
        field, codes = f"{at}.restartPolicyRules[{position}]", rule.get("exitCodes")
        yield from choice(f"{field}.action", text(rule, "action"), ("Restart", "RestartAllContainers"))
        if codes is None:
            yield required(f"{field}.exitCodes")
            continue
        yield from choice(f"{field}.exitCodes.operator", text(codes, "operator"), ("In", "NotIn"))
        values = codes.get("values") or ()
        if len(values) > _MAX_EXIT_CODES:
            detail = f"must have at most {_MAX_EXIT_CODES} items"
            yield Fault(f"{field}.exitCodes.values", Kind.TOO_MANY, len(values), detail)
