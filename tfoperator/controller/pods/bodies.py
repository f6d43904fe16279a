"""The bodies of a job's pods and services: JSON-ready data that may share parts with each other and the template.

There is one headless service per replica, or one for the whole job, so that TF_CONFIG can name a pod before it exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfoperator.api.names import (
    ANNOTATION_JOB_RESTARTS,
    ANNOTATION_RESTARTS,
    DEFAULT_PORT,
    DEFAULT_PORT_NAME,
    job_labels,
    replica_labels,
)
from tfoperator.api.v1.types import TFJOBS, ReplicaType, RestartPolicy, TFJob
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
    """Return the pod's restartPolicy. ExitCode becomes Never: the operator itself looks at the exit code.

    So does every policy where all replicas restart together: a kubelet would restart only one container.
    """
    return "Never" if together or policy is RestartPolicy.EXIT_CODE else str(policy)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class ReplicaBodies:
    """Makes the bodies of one replica type's pods and services.

    With `subdomain`, the name of the job's one service, a pod is found under its own name in that.
    """

    def __init__(
        self, job: TFJob, template: Template, replica_type: ReplicaType, *, restart_policy: str, subdomain: str = ""
    ) -> None:
        self._job = job
        self._template = template
        self._type = replica_type
        self._restart_policy = restart_policy
        self._subdomain = subdomain
        self._owners = [owner_reference(job)]

    def pod(
        self,
        index: int,
        *,
        name: str,
        is_master: bool,
        env: Mapping[str, str],
        restarts: int,
        job_restarts: int,
        arguments: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the pod of one replica.

        The template's own labels and annotations are kept, ours win. `env` is added to the training container's own
        variables, in the place of a TF_CONFIG that the user set: two of the same name would leave the choice to the
        runtime, and in the Go operator's pods the operator's is used. Without one (a job of one replica) the user's
        stays. `arguments` follow the container's own, so that of two of the same name the operator's is read last.
        """
        template, meta = self._template, self._job.metadata
        labels = template.labels | replica_labels(meta.name, self._type, index, is_master=is_master)
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": meta.namespace,
            "labels": labels,
            "ownerReferences": self._owners,
        }
        annotations = template.annotations
        for key, count in ((ANNOTATION_RESTARTS, restarts), (ANNOTATION_JOB_RESTARTS, job_restarts)):
            if count:
                annotations = annotations | {key: str(count)}
            elif key in annotations:
                annotations = {name: value for name, value in annotations.items() if name != key}
        if annotations:
            metadata["annotations"] = annotations
        containers = list(template.containers)
        container = containers[template.container] | {"ports": template.ports}
        if env:
            own = [variable for variable in template.env if str(variable.get("name")) not in env]
            container["env"] = own + [{"name": name, "value": value} for name, value in env.items()]
        if arguments:
            container["args"] = [*template.args, *arguments]
        containers[template.container] = container
        spec = template.spec | {"restartPolicy": self._restart_policy, "containers": containers}
        if self._subdomain:
            spec |= {"hostname": name, "subdomain": self._subdomain}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def service(self, index: int, *, name: str) -> dict[str, Any]:
        """Return the headless service of one replica; it selects the replica's pod by the labels that both carry."""
        meta = self._job.metadata
        labels = replica_labels(meta.name, self._type, index, is_master=False)
        return _headless_service(
            meta.namespace, name, labels, {"ports": self._template.service_ports}, owners=self._owners
        )


def away_from(pod: dict[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Return the pod, not to be scheduled to these nodes: besides what its own affinity requires."""
    affinity = pod["spec"].get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(_REQUIRED) or {}
    rule = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [*nodes]}
    # One of the terms has to hold, and of that all expressions.
    given = required.get("nodeSelectorTerms") or [{}]
    terms = [term | {"matchExpressions": [*(term.get("matchExpressions") or ()), rule]} for term in given]
    of_nodes = of_nodes | {_REQUIRED: required | {"nodeSelectorTerms": terms}}
    return pod | {"spec": pod["spec"] | {"affinity": affinity | {"nodeAffinity": of_nodes}}}


def job_service_body(job: TFJob, *, name: str) -> dict[str, Any]:
    """Return the headless service of all replicas of a job: DNS answers `{pod}.{name}` with the address of that pod.

    It publishes addresses of pods that are not ready: programs look for each other to become so. DNS needs no port; the
    port here gives others (service meshes, SRV records) the pods' protocol. Its target is a name, since the number may
    differ from one replica type to the other, so it does not depend on the templates.
    """
    port = {"name": DEFAULT_PORT_NAME, "port": DEFAULT_PORT, "targetPort": DEFAULT_PORT_NAME}
    labels = job_labels(job.metadata.name)
    spec = {"publishNotReadyAddresses": True, "ports": [port]}
    return _headless_service(job.metadata.namespace, name, labels, spec, owners=[owner_reference(job)])


def _headless_service(
    namespace: str, name: str, labels: dict[str, str], spec: dict[str, Any], *, owners: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": owners,
        },
        "spec": {"clusterIP": "None", "selector": labels, **spec},
    }
