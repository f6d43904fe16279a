"""The validation of pods, services and deployments, by kube-apiserver's rules for mistakes that users make.

Bodies have passed `json_types.check_types`, so types are right here. Every problem names its field by path.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import msgspec

from tfoperator.local.apiserver.errors import FieldProblem, duplicate, forbidden, invalid_value, not_supported, required
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.objects import name_rules
from tfoperator.local.apiserver.objects.defaults import containers_of

_Problems = Iterator[FieldProblem]

_MAX_EXIT_CODES = 255


def validate_pod(pod: Json) -> _Problems:
    """Yield the problems of a new (defaulted) pod."""
    spec = pod["spec"]
    if not spec.get("containers"):
        yield required("spec.containers")
    volumes = yield from _validate_volumes(spec)
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _validate_container(container, f"spec.{field}[{index}]", volumes, seen)
    yield from _one_of("spec.restartPolicy", spec["restartPolicy"], ("Always", "OnFailure", "Never"))
    yield from _one_of(
        "spec.dnsPolicy", spec["dnsPolicy"], ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
    )
    if spec["terminationGracePeriodSeconds"] < 0:
        yield invalid_value(
            "spec.terminationGracePeriodSeconds",
            spec["terminationGracePeriodSeconds"],
            "must be greater than or equal to 0",
        )
    for field in ("hostname", "subdomain"):
        if spec.get(field) and (problem := name_rules.dns_label(spec[field])):
            yield invalid_value(f"spec.{field}", spec[field], problem)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 0 < deadline < 2**31:
        yield invalid_value("spec.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")


def _one_of(field: str, value: object, supported: tuple[str, ...]) -> _Problems:
    if value not in supported:
        yield not_supported(field, value, supported)


def _named(field: str, value: str | None, rule: Callable[[str], str], seen: set[str]) -> _Problems:
    if not value:
        yield required(field)
    elif problem := rule(value):
        yield invalid_value(field, value, problem)
    elif value in seen:
        yield duplicate(field, value)
    else:
        seen.add(value)


def _validate_volumes(spec: Json) -> Generator[FieldProblem, None, set[str]]:
    seen: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _named(f"spec.volumes[{index}].name", volume.get("name"), name_rules.dns_label, seen)
    return seen


def _validate_container(container: Json, path: str, volumes: set[str], seen: set[str]) -> _Problems:
    yield from _named(f"{path}.name", container.get("name"), name_rules.dns_label, seen)
    if not container.get("image"):
        yield required(f"{path}.image")
    yield from _one_of(f"{path}.imagePullPolicy", container["imagePullPolicy"], ("Always", "IfNotPresent", "Never"))
    yield from _validate_restarts(container, path)
    yield from _validate_ports(container, path)
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name")
        if not name:
            yield required(f"{path}.env[{index}].name")
        elif problem := name_rules.environment_name(name):
            yield invalid_value(f"{path}.env[{index}].name", name, problem)
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            yield required(f"{at}.name")
        elif mount["name"] not in volumes:
            yield FieldProblem(f"{at}.name", "FieldValueNotFound", f'Not found: "{mount["name"]}"')
        if not mount.get("mountPath"):
            yield required(f"{at}.mountPath")


def _validate_restarts(container: Json, path: str) -> _Problems:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is not None:
        yield from _one_of(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure"))
    elif rules:
        yield required(f"{path}.restartPolicy")
    for index, rule in enumerate(rules):
        at, codes = f"{path}.restartPolicyRules[{index}]", rule.get("exitCodes")
        # Another action, RestartAllContainers, is not carried out here.
        yield from _one_of(f"{at}.action", rule.get("action"), ("Restart",))
        if codes is None:
            yield required(f"{at}.exitCodes")
            continue
        yield from _one_of(f"{at}.exitCodes.operator", codes.get("operator"), ("In", "NotIn"))
        if len(codes.get("values") or ()) > _MAX_EXIT_CODES:
            yield invalid_value(
                f"{at}.exitCodes.values", len(codes["values"]), f"must have at most {_MAX_EXIT_CODES} items"
            )


def _validate_ports(container: Json, path: str) -> _Problems:
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        at = f"{path}.ports[{index}]"
        yield from _port_number(f"{at}.containerPort", port.get("containerPort"))
        if port.get("name"):
            yield from _named(f"{at}.name", port["name"], name_rules.port_name, seen)
        yield from _one_of(f"{at}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))


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
    """Yield the problems of an update: the spec is immutable except for the rule's fields; the deadline may only be
    set and lowered.
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
    seen: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port_number(f"spec.ports[{index}].port", port.get("port"))
        if port.get("name") or len(ports) > 1:
            yield from _named(f"spec.ports[{index}].name", port.get("name"), name_rules.dns_label, seen)


def validate_service_update(new: Json, old: Json) -> _Problems:
    """Yield a problem if the cluster address changes."""
    address = new["spec"].get("clusterIP")
    if old["spec"].get("clusterIP") and address != old["spec"]["clusterIP"] and new["spec"]["type"] != "ExternalName":
        yield invalid_value("spec.clusterIPs[0]", [address], "may not change once set")


def validate_deployment(deployment: Json) -> _Problems:
    """Yield the problems of a (defaulted) deployment."""
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
    for problem in validate_pod(spec["template"]):
        yield FieldProblem(f"spec.template.{problem.field}", problem.reason, problem.message)
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy in ("OnFailure", "Never"):
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))


def validate_deployment_update(new: Json, old: Json) -> _Problems:
    """Yield a problem if the selector changes: the deployment's pods could not be identified."""
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")
