"""Makes the bodies of a job's pods and services.

The bodies are JSON-ready data that may share parts with each other and with the template. There is one headless service
per replica, or one headless service for the whole job. These services give each pod a host name that is known before
the pod exists, so that TF_CONFIG can contain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfoperator.api.replicas.names import (
    DEFAULT_PORT,
    DEFAULT_PORT_NAME,
    RECORDS_ON_PODS,
    job_labels,
)
from tfoperator.api.v1.choices import RestartPolicy
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.pods.template import Template


def owner_reference(job: TFJob) -> dict[str, Any]:
    """Return the owner reference that makes the job the controller of an object, for the garbage collector."""
    return {
        "apiVersion": TFJOBS.api_version,
        "kind": TFJOBS.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_restart_policy(policy: RestartPolicy, *, together: bool) -> str:
    """Return the pod's restartPolicy. ExitCode becomes Never: the operator itself checks the exit code.

    Every policy becomes Never where all replicas restart together: a kubelet would restart only one container.
    """
    return "Never" if together or policy is RestartPolicy.EXIT_CODE else str(policy)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class ReplicaPod(NamedTuple):
    """The parts of a replica's pod that its template does not have."""

    name: str
    labels: dict[str, str]
    restart_policy: str
    subdomain: str
    """The name of the service for the whole job; DNS resolves the pod below this name. Empty if each replica has a
    service of its own.
    """
    env: Mapping[str, str]
    """Variables that are added to the training container's own variables. They replace a TF_CONFIG that the user set:
    with two variables of the same name, the container runtime would choose. The Go operator's pods use the operator's
    TF_CONFIG, too. For a job of one replica, `env` has no TF_CONFIG, so the user's TF_CONFIG stays.
    """
    arguments: Sequence[str]
    """Arguments that follow the container's own arguments. If two arguments have the same name, a program uses the last
    argument, which is the operator's.
    """
    restarts: Mapping[str, int]
    """Numbers of restarts, by the name of their annotation."""


def pod_body(job: TFJob, template: Template, replica: ReplicaPod) -> dict[str, Any]:
    """Return the pod of one replica.

    The pod keeps the template's own labels and annotations, except RECORDS_ON_PODS. If the replica has the same key,
    the replica's value wins.
    """
    restarts, env = replica.restarts, replica.env
    annotations = {key: value for key, value in template.annotations.items() if key not in RECORDS_ON_PODS}
    annotations |= {key: str(count) for key, count in restarts.items() if count}
    metadata: dict[str, Any] = {
        "name": replica.name,
        "namespace": job.metadata.namespace,
        "labels": template.labels | replica.labels,
        "ownerReferences": [owner_reference(job)],
    }
    if annotations:
        metadata["annotations"] = annotations
    containers = list(template.containers)
    container = containers[template.container] | {"ports": template.ports}
    if env:
        own = [variable for variable in template.env if str(variable.get("name")) not in env]
        container["env"] = own + [{"name": name, "value": value} for name, value in env.items()]
    if replica.arguments:
        container["args"] = [*template.args, *replica.arguments]
    containers[template.container] = container
    spec = template.spec | {"restartPolicy": replica.restart_policy, "containers": containers}
    if replica.subdomain:
        spec |= {"hostname": replica.name, "subdomain": replica.subdomain}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def away_from(pod: dict[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Return the pod with a rule that excludes these nodes, in addition to the rules of its own affinity."""
    affinity = pod["spec"].get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(_REQUIRED) or {}
    rule = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [*nodes]}
    # A node fits if any term matches, and a term matches if all of its expressions match. So each term gets the rule.
    given = required.get("nodeSelectorTerms") or [{}]
    terms = [term | {"matchExpressions": [*(term.get("matchExpressions") or ()), rule]} for term in given]
    of_nodes = of_nodes | {_REQUIRED: required | {"nodeSelectorTerms": terms}}
    return pod | {"spec": pod["spec"] | {"affinity": affinity | {"nodeAffinity": of_nodes}}}


def job_service_body(job: TFJob, *, name: str) -> dict[str, Any]:
    """Return the headless service of all replicas of a job: DNS answers `{pod}.{name}` with the address of that pod.

    It publishes addresses of pods that are not ready, because programs must reach each other before they become ready.
    DNS needs no port. The port in this service shows the pods' protocol to other clients (service meshes, SRV records).
    The port's target is a name, because the port's number may differ from one replica type to another. So the service
    does not depend on the templates.
    """
    port = {"name": DEFAULT_PORT_NAME, "port": DEFAULT_PORT, "targetPort": DEFAULT_PORT_NAME}
    labels = job_labels(job.metadata.name)
    return headless_service(job, name, labels, {"publishNotReadyAddresses": True, "ports": [port]})


def headless_service(job: TFJob, name: str, labels: Mapping[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    """Return a headless service of the job. It selects pods that have the same labels as the service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"clusterIP": "None", "selector": labels, **spec},
    }
