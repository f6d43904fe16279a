"""The defaults that kube-apiserver sets in pods, services and deployments.

Clients and node agents rely on these defaults. Every function that sets defaults changes its argument in place and is
idempotent.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from tfoperator.api.fields.quantity import format_quantity, parse_signed_quantity
from tfoperator.api.pods.rules.resources import HUGE_PAGES, container_sums
from tfoperator.local.apiserver.members import Json

_POD_RESOURCES = ("cpu", "memory")
"""The resources for which a whole pod can have a limit, apart from huge pages."""


def default_pod(pod: Json) -> None:
    """Set the defaults of a pod's spec."""
    _default_pod_spec(pod["spec"])
    for toleration in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        _tolerate(pod["spec"], toleration)


def default_deployment(deployment: Json) -> None:
    """Set the defaults of a deployment and of its pod template."""
    spec = deployment["spec"]
    for field, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        _set(spec, field, value)
    _set(spec, "strategy", {})
    _set(spec["strategy"], "type", "RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _set(spec["strategy"], "rollingUpdate", {})
        for field in ("maxSurge", "maxUnavailable"):
            _set(spec["strategy"]["rollingUpdate"], field, "25%")
    _set(spec, "template", {})
    _set(spec["template"], "metadata", {})
    _set(spec["template"], "spec", {})
    _default_pod_spec(spec["template"]["spec"])


def _default_pod_spec(spec: Json) -> None:
    for field, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
        ("enableServiceLinks", True),
    ):
        _set(spec, field, value)
    _set(spec, "securityContext", {})
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _default_container(container)
        for port in (container.get("ports") or ()) if spec.get("hostNetwork") else ():
            port["hostPort"] = port.get("hostPort") or port.get("containerPort")
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    if spec.get("resources") is not None:
        _default_pod_resources(spec)


def _default_pod_resources(spec: Json) -> None:
    """Complete the limits and requests of a whole pod (`spec.resources`), if the pod has any of them.

    Missing limits of huge pages are the sums of the containers' limits. If the pod has limits, each missing request is
    the sum of the containers' requests, or the pod's limit if the containers have no such request.
    """
    resources = spec["resources"]
    for kind in ("limits", "requests"):
        _write_quantities(resources.get(kind))
    given = {kind: resources.get(kind) or {} for kind in ("limits", "requests")}
    if not any(given.values()):
        return
    for name, amount in container_sums(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name not in given["requests"]:
            given["limits"].setdefault(name, format_quantity(amount))
    if not given["limits"]:
        return
    for name, amount in container_sums(spec, "requests").items():
        if name in _POD_RESOURCES:
            given["requests"].setdefault(name, format_quantity(amount))
    for name, limit in given["limits"].items():
        if name in _POD_RESOURCES or name.startswith(HUGE_PAGES):
            given["requests"].setdefault(name, limit)
    resources |= given


def _default_volume(volume: Json) -> None:
    if all(source is None for kind, source in volume.items() if kind != "name"):
        volume["emptyDir"] = {}
    if (volume.get("emptyDir") or {}).get("sizeLimit") is not None:
        _write_quantities(volume["emptyDir"])
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if volume.get(kind) is not None:
            _set(volume[kind], "defaultMode", 420)
    downward = [volume.get("downwardAPI")]
    for source in (volume.get("projected") or {}).get("sources") or ():
        downward.append(source.get("downwardAPI"))
        if source.get("serviceAccountToken") is not None:
            _set(source["serviceAccountToken"], "expirationSeconds", 3600)
    for item in (item for source in downward for item in (source or {}).get("items") or ()):
        if item.get("fieldRef") is not None:
            _set(item["fieldRef"], "apiVersion", "v1")
    if volume.get("hostPath") is not None and volume["hostPath"].get("type") is None:
        volume["hostPath"]["type"] = ""
    if volume.get("image") is not None:
        _set(volume["image"], "pullPolicy", _pull_policy(volume["image"].get("reference")))


def containers_of(spec: Json) -> Iterable[Json]:
    """Return the init containers and the containers of a pod spec."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _write_quantities(amounts: Json | None) -> None:
    """Replace quantities that are numbers by texts, in place, as API servers do: 0.5 becomes 500m."""
    for name, value in (amounts or {}).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = parse_signed_quantity(value)
            amounts[name] = format_quantity(number) if number >= 0 else str(value)  # type: ignore[index]


def _set(target: Json, field: str, value: object) -> None:
    """Set a member that is absent, null or an empty text. For Go programs these three mean the same."""
    if target.get(field) in (None, ""):
        target[field] = value


def _default_container(container: Json) -> None:
    _set(container, "imagePullPolicy", _pull_policy(container.get("image")))
    _set(container, "terminationMessagePath", "/dev/termination-log")
    _set(container, "terminationMessagePolicy", "File")
    _set(container, "resources", {})
    resources = container["resources"]
    for kind in ("limits", "requests"):
        _write_quantities(resources.get(kind))
    if limits := resources.get("limits"):
        # If a resource has a limit and no request, kube-apiserver sets the request to the limit.
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        _set(port, "protocol", "TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            _default_probe(container[probe])
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            _set(reference, "apiVersion", "v1")


def _pull_policy(image: str | None) -> str:
    name = (image or "").rpartition("/")[2]
    tagged = "@" in name or (":" in name and not name.endswith(":latest"))
    return "IfNotPresent" if tagged else "Always"


def _default_probe(probe: Json) -> None:
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    probe.update({field: probe.get(field) or default for field, default in numbers.items()})
    if isinstance(probe.get("httpGet"), dict):
        _set(probe["httpGet"], "path", "/")
        _set(probe["httpGet"], "scheme", "HTTP")


def _tolerate(spec: Json, key: str) -> None:
    """Make the pod tolerate the taint `key` for five minutes, as the DefaultTolerationSeconds admission plugin does.

    The pod keeps its own tolerations. If one of them is for this key or for all keys, change nothing.
    """
    tolerations = spec.get("tolerations") or []
    if any(t.get("key") in (None, "", key) for t in tolerations):
        return
    spec["tolerations"] = [
        *tolerations,
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
    ]


def initial_pod_status(spec: Json) -> Json:
    """Return the status of a new pod, which is not scheduled yet."""
    return {"phase": "Pending", "qosClass": _qos_class(spec)}


def _qos_class(spec: Json) -> str:
    resources = [c.get("resources") or {} for c in containers_of(spec)]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    for resource in resources:
        limits, requests = resource.get("limits") or {}, resource.get("requests") or {}
        if any(name not in limits or requests.get(name) != limits[name] for name in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"


def default_service(service: Json, rng: random.Random) -> None:
    """Set the defaults of a service. A missing `clusterIP` becomes an address that belongs to no host.

    A service of type ExternalName gets no address.
    """
    spec = service["spec"]
    _set(spec, "type", "ClusterIP")
    _set(spec, "sessionAffinity", "None")
    for port in spec.get("ports") or ():
        _set(port, "protocol", "TCP")
        _set(port, "targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        if not spec.get("clusterIP"):
            spec["clusterIP"] = cluster_ip(rng)
        _set(spec, "clusterIPs", [spec["clusterIP"]])
        _set(spec, "ipFamilies", ["IPv4"])
        _set(spec, "ipFamilyPolicy", "SingleStack")
        _set(spec, "internalTrafficPolicy", "Cluster")
    if not isinstance(service.get("status"), dict):
        service["status"] = {"loadBalancer": {}}


def cluster_ip(rng: random.Random) -> str:
    """Return a random address in 10.96.0.0/12, the usual service network."""
    return f"10.{96 + rng.randrange(16)}.{rng.randrange(256)}.{1 + rng.randrange(254)}"
