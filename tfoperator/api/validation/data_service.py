"""Finds the problems of `spec.dataService`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfoperator.api.fields.limits import MAX_NAME_LENGTH, WORK_DIR
from tfoperator.api.fields.problems import Problem, member, shown
from tfoperator.api.replicas.data_service import DEFAULT_DATA_SERVICE_PORT, LONGEST_MEMBER
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, parse_replica_type
from tfoperator.api.replicas.templates import decode_template, is_absent, is_hash, readable_spec
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.data_service import DataService
from tfoperator.api.v1.types import TFJobSpec
from tfoperator.api.validation.checks import warning
from tfoperator.api.validation.declared import field_problems
from tfoperator.api.validation.pod_template import validate_template

_PATH = "spec.dataService"
_TEMPLATE = member(_PATH, "template")

LONGEST_NAME = MAX_NAME_LENGTH - len(LONGEST_MEMBER)
"""The maximum number of characters of the name of a job with a data service. It leaves room for `-dataworker-999`,
because a user may add data workers later.
"""


def validate_data_service(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield the problems of a job's data service, errors and warnings; nothing if the job has no data service."""
    data_service = spec.data_service
    if data_service is None:
        return
    rules = {
        "template": _validate_template(spec, data_service),
        "port": _validate_port(data_service),
        "workDir": _validate_work_dir(spec, data_service),
    }
    yield from field_problems(_PATH, data_service, rules)


def _validate_template(spec: TFJobSpec, data_service: DataService) -> Iterator[Problem]:
    if not is_absent(data_service.template):
        own_policy = "has no effect: the operator always restarts the programs of a data service"
        yield from validate_template(_TEMPLATE, data_service.template, own_policy=own_policy)
    elif not any(
        replica is not None and parse_replica_type(key) is not ReplicaType.PS and not is_absent(replica.template)
        for key, replica in spec.tf_replica_specs.items()
    ):
        yield Problem(
            _TEMPLATE,
            "is required, because the job lacks a Chief, Worker or Evaluator with a template, which the operator could "
            "use instead",
        )


def _validate_port(data_service: DataService) -> Iterator[Problem]:
    """Yield a problem if a container other than `tensorflow` has the data service's port; warn of `hostNetwork`.

    Containers of a pod can't share a port.
    """
    if is_absent(data_service.template) or is_hash(data_service.template):
        return
    try:
        template = decode_template(data_service.template)
    except msgspec.ValidationError:
        return  # reported as a problem of the template
    port = DEFAULT_DATA_SERVICE_PORT if data_service.port is None else data_service.port
    for container in template.spec.containers:
        if container.name != DEFAULT_CONTAINER_NAME and any(
            declared.container_port == port for declared in container.ports
        ):
            text = f"port {port} is used by container {shown(container.name)} of the template: choose another port"
            yield Problem(member(_PATH, "port"), text)
    if readable_spec(data_service.template).get("hostNetwork") is True:
        text = (
            f"with hostNetwork, port {port} must be free on every node, and each node can run only one pod of the "
            "data service"
        )
        yield warning(member(_PATH, "port"), text)


def _validate_work_dir(spec: TFJobSpec, data_service: DataService) -> Iterator[Problem]:
    """Yield a warning if `workDir` is not on a volume: the journal is then lost together with the dispatcher's pod."""
    work_dir = data_service.work_dir
    if not work_dir or not work_dir.startswith("/") or not WORK_DIR.fits(work_dir):
        return
    places = [spec.checkpoint.mount_path] if spec.checkpoint is not None else []
    for raw in (
        data_service.template,
        *(replica.template for replica in spec.tf_replica_specs.values() if replica is not None),
    ):
        if is_absent(raw):
            continue
        if is_hash(raw):
            return
        for container in readable_spec(raw).get("containers") or ():
            mounts = container.get("volumeMounts") if isinstance(container, dict) else None
            places += [str(mount.get("mountPath")) for mount in mounts or () if isinstance(mount, dict)]
    folder = work_dir.rstrip("/") + "/"
    if not any(folder.startswith(place.rstrip("/") + "/") for place in places if place):
        text = f"{shown(work_dir)} is not on a volume, so the journal is lost with the dispatcher's pod"
        yield warning(member(_PATH, "workDir"), text)
