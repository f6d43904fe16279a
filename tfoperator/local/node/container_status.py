"""The status of a container, in the same form as a kubelet writes it (Kubernetes 1.37, convertToAPIContainerStatuses).

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.kube.views.objects import timestamp
from tfoperator.kube.views.pod_spec import Container, VolumeMount
from tfoperator.kube.views.pod_status import ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting
from tfoperator.local.node.container_record import NOT_STARTED, ContainerRecord, State
from tfoperator.local.runtime.protocol import ContainerIdentity

_STATES = {ContainerStateWaiting: "waiting", ContainerStateRunning: "running", ContainerStateTerminated: "terminated"}
_WAITS_FOR_INIT = ContainerStateWaiting("PodInitializing")


def init_container_statuses(records: Sequence[ContainerRecord]) -> list[dict[str, Any]]:
    """Return the statuses of a pod's init containers, in the order of the spec."""
    return [_container(record, ready=_init_ready(record), has_init=True) for record in records]


def container_statuses(records: Sequence[ContainerRecord], *, has_init: bool) -> list[dict[str, Any]]:
    """Return the statuses of the containers that are not init containers, in the order of their names.

    `has_init` is whether the pod has init containers: then a container that has not started waits for these.
    """
    ordered = sorted(records, key=lambda record: record.container.name)
    return [_container(record, ready=_running(record), has_init=has_init) for record in ordered]


def _running(record: ContainerRecord) -> bool:
    return isinstance(record.state, ContainerStateRunning)


def _init_ready(record: ContainerRecord) -> bool:
    return _running(record) if record.sidecar else record.succeeded


def _container(record: ContainerRecord, *, ready: bool, has_init: bool) -> dict[str, Any]:
    container, identity = record.container, record.identity
    state = _WAITS_FOR_INIT if has_init and record.state is NOT_STARTED else record.state
    status = {
        "name": container.name,
        "state": _state(state, identity),
        "lastState": _state(record.last, record.last_identity) if record.last else {},
        "ready": ready,
        "restartCount": record.restarts,
        "image": container.image,
        "imageID": "" if identity is None else identity.image_id,
        "started": _running(record),
    }
    if container.volume_mounts:
        status["volumeMounts"] = [_volume_mount(mount) for mount in container.volume_mounts]
    if identity is not None:
        status |= {"containerID": identity.container_id, **_resources(container), **_user(identity)}
    return status


def _state(state: State, identity: ContainerIdentity | None) -> dict[str, Any]:
    if isinstance(state, ContainerStateTerminated):
        # A container that failed to start gets both times, too: clients show a missing time as the year 1.
        state = msgspec.structs.replace(state, started_at=state.started_at or state.finished_at)
    members = msgspec.to_builtins(state, builtin_types=(datetime,)).items()
    fields = {
        name: timestamp(value) if isinstance(value, datetime) else value for name, value in members if value != ""
    }
    if identity is not None and isinstance(state, ContainerStateTerminated):
        fields["containerID"] = identity.container_id
    return {_STATES[type(state)]: fields}


def _volume_mount(mount: VolumeMount) -> dict[str, Any]:
    place: dict[str, Any] = {"name": mount.name, "mountPath": mount.mount_path}
    return place | ({"readOnly": True, "recursiveReadOnly": "Disabled"} if mount.read_only else {})


def _resources(container: Container) -> dict[str, Any]:
    """Return the resources that the container got, which are always the resources in its spec."""
    given = container.resources
    if given is None:
        return {"resources": {}}
    resources = {"limits": _quantities(given.limits), "requests": _quantities(given.requests)}
    status: dict[str, Any] = {"resources": {name: quantities for name, quantities in resources.items() if quantities}}
    return status | ({"allocatedResources": resources["requests"]} if resources["requests"] else {})


def _quantities(given: Mapping[str, str | int | float] | None) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in (given or {}).items()}


def _user(identity: ContainerIdentity) -> dict[str, Any]:
    user = identity.user
    if user is None:
        return {}
    groups = {"supplementalGroups": list(user.groups)} if user.groups else {}
    return {"user": {"linux": {"uid": user.uid, "gid": user.gid, **groups}}}
