"""Adds accelerators, the checkpoint volume, access to report progress, and a restart rule to a template.

*Accelerators* are settings of the cluster's administrator. Drivers and their libraries may be installed on the nodes,
and be missing from the images. The administrator knows their paths. Users should not have to repeat the paths in every
job.

*The checkpoint volume* is a setting of the job. The job's directory in the volume is named after the job's namespace
and name, not after its UID: if a job has failed for good, a user submits the job again under the same name, and the new
job must find the last checkpoint.

*Access to report progress* consists of three variables and two files. The CA certificates that the pod must trust are
in an annotation of the pod itself. A volume shows this annotation as a file. A ConfigMap in place of the annotation
would need the right to write ConfigMaps in every namespace, code that deletes the ConfigMaps, and a watch. The other
file is a token for the pod's service account. The token is valid only for reports about this job: API servers do not
accept it.

*The restart rule* makes the kubelet itself carry out the restart policy ExitCode (Kubernetes 1.35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.api.replicas.names import ANNOTATION_RESTART_MODE, CHECKPOINT_VARIABLE, CHECKPOINT_VOLUME
from tfoperator.api.replicas.progress_names import (
    ANNOTATION_PROGRESS_CA,
    CA_FILE,
    CA_VARIABLE,
    PROGRESS_MOUNT_PATH,
    PROGRESS_VOLUME,
    TOKEN_FILE,
    TOKEN_SECONDS,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    status_path,
    token_audience,
)
from tfoperator.api.replicas.replica_pods import FIRST_RETRYABLE_EXIT_CODE
from tfoperator.api.replicas.templates import template_dict
from tfoperator.api.v1.choices import RestartMode, RestartPolicy
from tfoperator.api.v1.parts.checkpoint import Checkpoint
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.template import PodTemplateError, Template, list_of_objects
from tfoperator.kube.views.objects import ObjectMeta

_Objects = Sequence[dict[str, Any]]

_PERMANENT_EXIT_CODES = {"operator": "NotIn", "values": list(range(FIRST_RETRYABLE_EXIT_CODE))}
_RESTART_RULES: list[dict[str, Any]] = [{"action": "Restart", "exitCodes": _PERMANENT_EXIT_CODES}]


class Accelerator(msgspec.Struct, frozen=True, rename="camel"):
    """The additions to pods that request one resource, such as `nvidia.com/gpu`.

    Each addition has the format of the same field in a pod's spec. It is checked when the operator reads its
    configuration.
    """

    volumes: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()


def add_accelerators(template: Template, accelerators: Mapping[str, Accelerator]) -> None:
    """Add the settings to each container of the template that requests or limits a resource in `accelerators`.

    Init containers get the settings too. The template's own settings win: if it already has a volume of the same name,
    a mount at the same path or a variable of the same name, the addition is left out. The added variables come before
    the template's variables, so the template's variables may refer to them. Raises PodTemplateError for a template of
    the wrong shape.
    """
    used: dict[str, Accelerator] = {}
    groups = {}
    for group in ("initContainers", "containers"):
        path = f"{template.path}.spec.{group}"
        containers = list_of_objects(template.spec.get(group), path)
        groups[group] = [
            _with_accelerators(container, accelerators, used, f"{path}[{position}]")
            for position, container in enumerate(containers)
        ]
    if not used:
        return
    own = list_of_objects(template.spec.get("volumes"), f"{template.path}.spec.volumes")
    _keep_read_only(groups, used, {volume.get("name") for volume in own})
    template.use_containers(groups["containers"])
    volumes = _joined(own, (accelerator.volumes for accelerator in used.values()), "name")
    template.spec = template.spec | {"volumes": volumes}
    if groups["initContainers"]:
        template.spec = template.spec | {"initContainers": groups["initContainers"]}


def _keep_read_only(
    groups: Mapping[str, list[dict[str, Any]]], used: Mapping[str, Accelerator], own: Set[object]
) -> None:
    """Make all mounts of a volume in the template read-only, if an accelerator mounts this volume read-only.

    `own` has the names of the volumes that the template itself declares. Their mounts do not change.
    """
    mounts = (mount for accelerator in used.values() for mount in accelerator.volume_mounts)
    protected = {mount["name"] for mount in mounts if mount.get("readOnly")} - own
    if not protected:
        return
    for containers in groups.values():
        for position, container in enumerate(containers):
            container_mounts = container.get("volumeMounts") or ()
            if any(mount.get("name") in protected for mount in container_mounts):
                kept = [
                    {**mount, "readOnly": True} if mount.get("name") in protected else mount
                    for mount in container_mounts
                ]
                containers[position] = container | {"volumeMounts": kept}


def _with_accelerators(
    container: dict[str, Any], accelerators: Mapping[str, Accelerator], used: dict[str, Accelerator], path: str
) -> dict[str, Any]:
    """Return the container with the settings of its accelerators, and add these accelerators to `used`."""
    wanted = {name: accelerator for name, accelerator in accelerators.items() if _requests(container, name)}
    if not wanted:
        return container
    used |= wanted
    env = list_of_objects(container.get("env"), f"{path}.env")
    mounts = list_of_objects(container.get("volumeMounts"), f"{path}.volumeMounts")
    ours = _joined(env, (accelerator.env for accelerator in wanted.values()), "name")[len(env) :]
    return container | {
        "env": [*ours, *env],
        "volumeMounts": _joined(mounts, (accelerator.volume_mounts for accelerator in wanted.values()), "mountPath"),
    }


def _requests(container: dict[str, Any], resource: str) -> bool:
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return False
    amounts = (resources.get("limits"), resources.get("requests"))
    return any(isinstance(amount, dict) and _is_some(amount.get(resource)) for amount in amounts)


def _is_some(amount: object) -> bool:
    """Return whether the value is a quantity above 0, in any notation. The API server refuses invalid quantities."""
    try:
        return parse_quantity(amount) > 0
    except ValueError:
        return False


def _joined(own: _Objects, more: Any, key: str) -> list[dict[str, Any]]:
    """Return `own`, then each object in `more` whose value of the field `key` no object before it has."""
    result = list(own)
    keys = {_place(item.get(key)) for item in own}
    for item in (item for group in more for item in group):
        if _place(item[key]) not in keys:
            keys.add(_place(item[key]))
            result.append(item)
    return result


def _place(value: object) -> str:
    # A path may end in a slash, a name can't.
    return str(value).rstrip("/")


def mount_checkpoint(template: Template, checkpoint: Checkpoint, job: ObjectMeta) -> None:
    """Add the checkpoint volume, which all replicas share, to a template.

    The training container mounts the job's own directory in the volume. Raises PodTemplateError if the template already
    uses the volume's name or the mount's path for something else.
    """
    try:
        source = template_dict(checkpoint.volume)
    except msgspec.ValidationError:
        raise PodTemplateError("spec.checkpoint.volume: must be an object") from None
    mount = {"mountPath": checkpoint.mount_path, "subPath": f"{job.namespace}/{job.name}"}
    _mount(template, CHECKPOINT_VOLUME, source, mount, use="spec.checkpoint", field="spec.checkpoint.mountPath")
    template.set_env(CHECKPOINT_VARIABLE, checkpoint.mount_path)


def _mount(
    template: Template, name: str, source: dict[str, Any], mount: dict[str, Any], *, use: str, field: str
) -> None:
    """Add a volume, and its mount to the training container.

    Raises PodTemplateError if the template already uses the volume's name or the mount's path. The message contains
    `use` (the field for which the volume's name is reserved, such as `spec.checkpoint`) or `field` (the field that sets
    the path).
    """
    path, place = f"{template.path}.spec.volumes", mount["mountPath"]
    volumes = list_of_objects(template.spec.get("volumes"), path)
    if any(volume.get("name") == name for volume in volumes):
        raise PodTemplateError(f"{path}: must not have a volume named {name}: this name is reserved for {use}")
    mounts = template.list_of_objects("volumeMounts")
    for other in mounts:
        if _place(other.get("mountPath")) == _place(place):
            raise PodTemplateError(
                f"{field}: {place} is already the mount path of volume {other.get('name')} in {template.path}"
            )
    template.spec = template.spec | {"volumes": [*volumes, source | {"name": name}]}
    template.change_container(volumeMounts=[*mounts, {"name": name, **mount}])


class ProgressAccess(msgspec.Struct, frozen=True):
    """How pods reach the progress server, which receives their reports of progress.

    `url` is the prefix of the server's URLs, and `authorities` (PEM) contains the CAs to trust. With `for_all`, jobs
    that leave their field `spec.progress` unset also report progress.
    """

    url: str
    authorities: str
    for_all: bool = False


def give_access(template: Template, access: ProgressAccess, job: ObjectMeta) -> None:
    """Add to the template the volume, its mount and the variables with which the training container reports progress.

    If a template names a progress server of its own, the function does not change the template. Raises PodTemplateError
    if the template already uses the volume's name or the mount's path for something else.
    """
    if any(variable.get("name") == URL_VARIABLE for variable in template.env):
        return
    token = {
        "audience": token_audience(job.namespace, job.name),
        "expirationSeconds": TOKEN_SECONDS,
        "path": TOKEN_FILE,
    }
    authorities = {"fieldPath": f"metadata.annotations['{ANNOTATION_PROGRESS_CA}']"}
    sources = [
        {"serviceAccountToken": token},
        {"downwardAPI": {"items": [{"path": CA_FILE, "fieldRef": authorities}]}},
    ]
    source = {"projected": {"sources": sources}}
    mount = {"mountPath": PROGRESS_MOUNT_PATH, "readOnly": True}
    _mount(template, PROGRESS_VOLUME, source, mount, use="spec.progress", field="spec.progress")
    template.annotations = template.annotations | {ANNOTATION_PROGRESS_CA: access.authorities}
    template.set_env(URL_VARIABLE, access.url + status_path(job.namespace, job.name))
    template.set_env(CA_VARIABLE, f"{PROGRESS_MOUNT_PATH}/{CA_FILE}")
    template.set_env(TOKEN_VARIABLE, f"{PROGRESS_MOUNT_PATH}/{TOKEN_FILE}")


def add_restart_rule(template: Template, job: TFJob, policy: RestartPolicy) -> None:
    """Add the rule by which the kubelet restarts the training container in its pod after each retryable exit code.

    After other exit codes the kubelet does not restart the container. Pods with other restart policies need no rule. If
    the job allows no restart at all, the pod gets no rule: a kubelet would restart the container before the operator
    could prevent it.
    """
    if policy is not RestartPolicy.EXIT_CODE or job.spec.policy.backoff_limit == 0:
        return
    template.change_container(restartPolicy="Never", restartPolicyRules=_RESTART_RULES)
    template.annotations = template.annotations | {ANNOTATION_RESTART_MODE: str(RestartMode.IN_PLACE)}
