"""The validation of pods, services and deployments, by kube-apiserver's rules for mistakes that users make.

Bodies have already passed `json_types.check_types`, so all types are right here. Every problem contains the path of its
field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules import Fault, Kind, pod_faults, template_faults
from tfoperator.local.apiserver.errors import FieldProblem, duplicate, forbidden, invalid_value, not_supported, required
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.objects.defaults import containers_of

_Problems = Iterator[FieldProblem]


def validate_pod(pod: Json) -> _Problems:
    """Yield the problems of a new (defaulted) pod."""
    return map(field_problem, pod_faults(pod))


def field_problem(fault: Fault) -> FieldProblem:
    """Return the FieldProblem for a fault of a pod, with kube-apiserver's wording."""
    match fault.kind:
        case Kind.REQUIRED:
            return required(fault.field, fault.detail)
        case Kind.NOT_SUPPORTED:
            return not_supported(fault.field, fault.value, fault.options)
        case Kind.FORBIDDEN:
            return forbidden(fault.field, fault.detail)
        case Kind.DUPLICATE:
            return duplicate(fault.field, fault.value)
        case Kind.NOT_FOUND:
            return FieldProblem(fault.field, fault.kind, f'Not found: "{fault.value}"')
        case Kind.TOO_LONG:
            return FieldProblem(fault.field, fault.kind, f"Too long: {fault.detail}")
        case Kind.TOO_MANY:
            return FieldProblem(fault.field, fault.kind, f"Too many: {fault.value}: {fault.detail}")
    return invalid_value(fault.field, fault.value, fault.detail)


def _one_of(field: str, value: object, supported: tuple[str, ...]) -> _Problems:
    if value not in supported:
        yield not_supported(field, value, supported)


def _named(field: str, value: str | None, rule: Callable[[str], str], names: set[str]) -> _Problems:
    if not value:
        yield required(field)
    elif problem := rule(value):
        yield invalid_value(field, value, problem)
    elif value in names:
        yield duplicate(field, value)
    else:
        names.add(value)


def _port_number(field: str, port: int | None) -> _Problems:
    if port is None:
        yield required(field)
    elif not 0 < port < 65536:
        yield invalid_value(field, port, "must be between 1 and 65535, inclusive")


_POD_UPDATE_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(new: Json, old: Json) -> _Problems:
    """Yield the problems of an update.

    The spec is immutable, except for the fields in `_POD_UPDATE_RULE`. `activeDeadlineSeconds` may only be set or
    lowered.
    """
    if new["spec"] != old["spec"] and _fixed_part(new["spec"]) != _fixed_part(old["spec"]):
        yield forbidden("spec", _POD_UPDATE_RULE)
    before, after = old["spec"].get("activeDeadlineSeconds"), new["spec"].get("activeDeadlineSeconds")
    if before is not None and after is None:
        yield invalid_value("spec.activeDeadlineSeconds", after, "must not update from a positive integer to nil value")
    elif before is not None and after > before:
        yield invalid_value("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")


def _fixed_part(spec: Json) -> Json:
    copy: Json = msgspec.json.decode(msgspec.json.encode(spec))
    for field in ("activeDeadlineSeconds", "tolerations"):
        copy.pop(field, None)
    for container in containers_of(copy):
        container.pop("image", None)
    return copy


def validate_service(service: Json) -> _Problems:
    """Yield the problems of a (defaulted) service."""
    spec = service["spec"]
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    yield from _one_of("spec.type", spec["type"], kinds)
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield required("spec.ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port_number(f"spec.ports[{index}].port", port.get("port"))
        if port.get("name") or len(ports) > 1:
            yield from _named(f"spec.ports[{index}].name", port.get("name"), name_rules.dns_label, names)


def validate_service_update(new: Json, old: Json) -> _Problems:
    """Yield a problem if the update changes the cluster address, unless the service becomes an ExternalName."""
    address = new["spec"].get("clusterIP")
    if old["spec"].get("clusterIP") and address != old["spec"]["clusterIP"] and new["spec"]["type"] != "ExternalName":
        yield invalid_value("spec.clusterIPs[0]", [address], "may not change once set")


def validate_deployment(deployment: Json) -> _Problems:
    """Yield the problems of a deployment whose missing fields were filled with their defaults."""
    spec = deployment["spec"]
    if spec["replicas"] < 0:
        yield invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    if spec["strategy"]["type"] not in ("Recreate", "RollingUpdate"):
        yield not_supported("spec.strategy", spec["strategy"], ("Recreate", "RollingUpdate"))
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels") or {}
    if selector is None:
        yield required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid_value("spec.selector", selector, "empty selector is invalid for deployment")
    elif not (selector.get("matchLabels") or {}).items() <= labels.items():
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from map(field_problem, template_faults(spec["template"], "spec.template"))
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy in ("OnFailure", "Never"):
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))


def validate_deployment_update(new: Json, old: Json) -> _Problems:
    """Yield a problem if the update changes the selector: the deployment could not find its pods any more."""
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")
