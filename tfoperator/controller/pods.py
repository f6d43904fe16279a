"""The bodies of pods. Pure: JSON-ready data that may share parts between pods and with the template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfoperator.api.names import ANNOTATION_RESTARTS, replica_labels
from tfoperator.api.v1.types import TFJOBS, ReplicaType, RestartPolicy, TFJob
from tfoperator.controller.templates import Template

__all__ = ["owner_reference", "pod_body", "pod_restart_policy"]

_TF_CONFIG = "TF_CONFIG"


def owner_reference(job: TFJob) -> dict[str, Any]:
    """The reference that makes the job the controller of what it creates, and the garbage collector clean it up."""
    return {
        "apiVersion": TFJOBS.api_version,
        "kind": TFJOBS.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_restart_policy(policy: RestartPolicy) -> str:
    """What the kubelet is told. ExitCode becomes Never: the operator itself looks at the exit code."""
    return "Never" if policy is RestartPolicy.EXIT_CODE else str(policy)


def pod_body(
    job: TFJob,
    template: Template,
    replica_type: ReplicaType,
    index: int,
    *,
    name: str,
    policy: RestartPolicy,
    is_master: bool,
    tf_config: str | None,
    restarts: int,
    arguments: Sequence[str] = (),
) -> dict[str, Any]:
    """The pod of one replica.

    The template's own labels and annotations are kept, ours win. With `tf_config` the training container gets
    TF_CONFIG, in the place of one that the user set: two of the same name would leave the choice to the runtime, and
    the operator's is the one that holds in the Go operator's pods. Without (a job of one replica) the user's stays.
    `arguments` follow the container's own, so that of two of the same name the operator's is read last.
    """
    labels = template.labels | replica_labels(job.metadata.name, replica_type, index, is_master=is_master)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(job)],
    }
    annotations = template.annotations
    if restarts:
        annotations = annotations | {ANNOTATION_RESTARTS: str(restarts)}
    elif ANNOTATION_RESTARTS in annotations:
        annotations = {key: value for key, value in annotations.items() if key != ANNOTATION_RESTARTS}
    if annotations:
        metadata["annotations"] = annotations
    containers = list(template.containers)
    container = containers[template.container] | {"ports": template.ports}
    if tf_config is not None:
        env = [variable for variable in template.env if variable.get("name") != _TF_CONFIG]
        container["env"] = [*env, {"name": _TF_CONFIG, "value": tf_config}]
    if arguments:
        container["args"] = [*template.args, *arguments]
    containers[template.container] = container
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.spec | {"restartPolicy": pod_restart_policy(policy), "containers": containers},
    }
