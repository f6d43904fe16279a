"""The rules for a whole pod, and for the template of pods."""

from __future__ import annotations

from ipaddress import ip_address

from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.claims import device_claim_faults
from tfoperator.api.pods.rules.containers import OfPod, containers_faults
from tfoperator.api.pods.rules.environment import file_volume_faults
from tfoperator.api.pods.rules.faults import (
    Fault,
    Faults,
    Json,
    Kind,
    by_rule,
    choice,
    forbidden,
    invalid,
    items,
    part,
    required,
    text,
    texts,
    within,
)
from tfoperator.api.pods.rules.labels import annotation_faults, label_faults
from tfoperator.api.pods.rules.placement import placement_faults
from tfoperator.api.pods.rules.resources import consistency_faults, resource_faults
from tfoperator.api.pods.rules.security import host_user_faults, pod_security_faults
from tfoperator.api.pods.rules.volumes import volume_faults

_DEFAULT_GRACE = 30
_MAX_NAMESERVERS, _MAX_SEARCHES, _MAX_SEARCH_CHARACTERS, _MAX_HOST_NAME = 3, 32, 2048, 64
_NAMES = (
    ("hostname", name_rules.dns_label),
    ("subdomain", name_rules.dns_label),
    ("serviceAccountName", name_rules.dns_subdomain),
    ("nodeName", name_rules.dns_subdomain),
    ("priorityClassName", name_rules.dns_subdomain),
)


def pod_faults(pod: Json, path: str = "") -> Faults:
    """Yield the faults for which an API server refuses a new pod at `path`; the types must be correct already.

    Of the pod's metadata, only the annotations are checked.

    If a member is absent, its default is assumed.
    """
    spec, prefix = part(pod, "spec"), f"{path}." if path else ""
    at = f"{prefix}spec"
    yield from annotation_faults(f"{prefix}metadata.annotations", part(part(pod, "metadata"), "annotations"))
    yield from _spec_faults(pod, at, text(part(pod, "metadata"), "name"))
    for group in ("containers", "initContainers"):
        for position, container in enumerate(items(spec, group)):
            image = text(container, "image")
            if image != image.strip():
                yield invalid(f"{at}.{group}[{position}].image", image, "must not begin or end with white space")
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{at}.ephemeralContainers", "must not be set when a pod is created")
    if text(spec, "nodeName") and spec.get("schedulingGates"):
        yield forbidden(f"{at}.nodeName", "must not be set beside schedulingGates")


def template_faults(template: Json, path: str) -> Faults:
    """Yield the faults for which an API server refuses the template of pods at `path`, as a Deployment has it."""
    metadata = part(template, "metadata")
    yield from label_faults(f"{path}.labels", part(metadata, "labels"))
    yield from annotation_faults(f"{path}.annotations", part(metadata, "annotations"))
    yield from _spec_faults(template, f"{path}.spec", "")
    if part(template, "spec").get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "must not be set in a template")


def _spec_faults(pod: Json, at: str, pod_name: str) -> Faults:
    spec, host_users = part(pod, "spec"), part(pod, "spec").get("hostUsers") is not False
    grace = spec.get("terminationGracePeriodSeconds")
    volumes = yield from volume_faults(spec, at, pod_name)
    claims = frozenset(text(claim, "name") for claim in items(spec, "resourceClaims")) - {""}
    yield from device_claim_faults(spec, at)
    policy = text(spec, "restartPolicy", "Always")
    # A grace period below zero becomes 1.
    seconds = _DEFAULT_GRACE if grace is None else 1 if grace < 0 else grace
    of_pod = OfPod(volumes, claims, seconds, policy, host_users)
    yield from containers_faults(spec, at, of_pod)
    if spec.get("resources") is not None:
        yield from _resource_faults(spec, at, claims)
    yield from _host_network_faults(spec, at)
    yield from choice(f"{at}.restartPolicy", policy, ("Always", "OnFailure", "Never"))
    yield from pod_security_faults(at, spec)
    yield from placement_faults(spec, at, part(part(pod, "metadata"), "labels").keys())
    yield from _dns_faults(spec, at)
    yield from _gate_faults(spec, at)
    yield from host_user_faults(spec, at)
    yield from _name_faults(spec, at)
    yield from within(f"{at}.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), 1, 2**31 - 1)
    yield from _system_faults(spec, at)
    yield from file_volume_faults(spec, at)


def _resource_faults(spec: Json, at: str, claims: frozenset[str]) -> Faults:
    resources, field = part(spec, "resources"), f"{at}.resources"
    if text(part(spec, "os"), "name") == "windows":
        yield forbidden(field, "must not be set for Windows")
        return
    if resources.get("claims") is not None:
        yield forbidden(f"{field}.claims", "must not be set for a whole pod")
    yield from resource_faults(field, resources, claims, of_pod=True)
    yield from consistency_faults(spec, field)


def _host_network_faults(spec: Json, at: str) -> Faults:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(items(spec, "containers")):
        for position, port in enumerate(items(container, "ports")):
            if port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
                field = f"{at}.containers[{index}].ports[{position}].hostPort"
                yield invalid(field, port["hostPort"], "must equal containerPort where hostNetwork is true")


def _dns_faults(spec: Json, at: str) -> Faults:
    policy, config, field = text(spec, "dnsPolicy", "ClusterFirst"), spec.get("dnsConfig"), f"{at}.dnsConfig"
    yield from choice(f"{at}.dnsPolicy", policy, ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"))
    servers, searches = texts(config, "nameservers"), texts(config, "searches")
    if policy == "None" and not servers:
        yield required(field if config is None else f"{field}.nameservers", "dnsPolicy: None needs a name server")
        return
    if len(servers) > _MAX_NAMESERVERS:
        yield invalid(f"{field}.nameservers", list(servers), f"must have at most {_MAX_NAMESERVERS} items")
    for position, server in enumerate(servers):
        yield from _address_faults(f"{field}.nameservers[{position}]", server)
    if len(searches) > _MAX_SEARCHES:
        yield invalid(f"{field}.searches", list(searches), f"must have at most {_MAX_SEARCHES} items")
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        yield invalid(f"{field}.searches", list(searches), f"must have at most {_MAX_SEARCH_CHARACTERS} characters")
    for position, search in enumerate(searches):
        if search != ".":
            yield from by_rule(f"{field}.searches[{position}]", search.removesuffix("."), name_rules.dns_search)
    for position, option in enumerate(items(config, "options")):
        if not text(option, "name"):
            yield required(f"{field}.options[{position}]")
    for position, alias in enumerate(items(spec, "hostAliases")):
        yield from _address_faults(f"{at}.hostAliases[{position}].ip", text(alias, "ip"))
        for index, host in enumerate(texts(alias, "hostnames")):
            yield from by_rule(f"{at}.hostAliases[{position}].hostnames[{index}]", host, name_rules.dns_subdomain)


def _address_faults(field: str, address: str) -> Faults:
    try:
        ip_address(address)
    except ValueError:
        yield invalid(field, address, "must be an IP address such as 10.0.0.1 or 2001:db8::1")


def _gate_faults(spec: Json, at: str) -> Faults:
    for position, gate in enumerate(items(spec, "readinessGates")):
        kind = text(gate, "conditionType")
        yield from by_rule(f"{at}.readinessGates[{position}].conditionType", kind, name_rules.qualified_name)
    seen_names: set[str] = set()
    for position, gate in enumerate(items(spec, "schedulingGates")):
        field, name = f"{at}.schedulingGates[{position}]", text(gate, "name")
        yield from by_rule(field, name, name_rules.qualified_name)
        if name in seen_names:
            yield Fault(field, Kind.DUPLICATE, name)
        seen_names.add(name)


def _name_faults(spec: Json, at: str) -> Faults:
    for field, rule in _NAMES:
        if text(spec, field):
            yield from by_rule(f"{at}.{field}", spec[field], rule)
    if spec.get("runtimeClassName") is not None:
        yield from by_rule(f"{at}.runtimeClassName", spec["runtimeClassName"], name_rules.dns_subdomain)
    if spec.get("preemptionPolicy") is not None:
        policy, field = spec["preemptionPolicy"], f"{at}.preemptionPolicy"
        if policy:
            yield from choice(field, policy, ("PreemptLowerPriority", "Never"))
        else:
            yield required(field)
    host = spec.get("hostnameOverride")
    if host is None:
        return
    field = f"{at}.hostnameOverride"
    for other in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(other):
            yield forbidden(field, f"must not be set beside {other}")
    if len(host) > _MAX_HOST_NAME:
        yield Fault(field, Kind.TOO_LONG, detail=f"must have at most {_MAX_HOST_NAME} characters")
    yield from by_rule(field, host, name_rules.dns_subdomain)


def _system_faults(spec: Json, at: str) -> Faults:
    if spec.get("overhead") is not None:
        overhead = {"limits": spec["overhead"]}
        yield from resource_faults(f"{at}.overhead", overhead, ())
    if spec.get("os") is None:
        return
    name = text(spec["os"], "name")
    if not name:
        yield required(f"{at}.os.name")
    else:
        yield from choice(f"{at}.os", name, ("linux", "windows"))
    if name != "linux":
        return
    if part(spec, "securityContext").get("windowsOptions") is not None:
        yield forbidden(f"{at}.securityContext.windowsOptions", "must not be set for Linux")
    for group in ("initContainers", "containers"):
        for index, container in enumerate(items(spec, group)):
            if part(container, "securityContext").get("windowsOptions") is not None:
                field = f"{at}.{group}[{index}].securityContext.windowsOptions"
                yield forbidden(field, "must not be set for Linux")
