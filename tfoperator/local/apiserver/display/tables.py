"""The columns of `kubectl get`: a custom kind has the columns of its CRD, a built-in kind has kube-apiserver's columns.

The server, not kubectl, computes the rows, as the protocol requires (`as=Table`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tfoperator.base.durations import human_duration
from tfoperator.local.apiserver.display.jsonpath import compile_path
from tfoperator.local.apiserver.members import Json, member_at
from tfoperator.local.apiserver.objects.custom_resources import Column, CustomResource
from tfoperator.local.apiserver.objects.events import older_event
from tfoperator.local.apiserver.resource_types import NEWER_EVENTS, ResourceType

Cell = Callable[[Json, datetime], Any]


_DEFINED = ("name", "type", "format", "description", "priority")  # the members of a column that a Table contains


class TableFormat:
    """The columns of one resource type. Each column has the function that computes its cells."""

    def __init__(self, *columns: tuple[Column, Cell]) -> None:
        self._columns = columns

    def definitions(self) -> list[Json]:
        """Return the `columnDefinitions` of a Table."""
        return [{name: getattr(column, name) for name in _DEFINED} for column, _ in self._columns]

    def row(self, obj: Json, now: datetime) -> list[Any]:
        """Return the cells of the row for one object."""
        return [cell(obj, now) for _, cell in self._columns]


def _ago(text: object, now: datetime) -> str:
    if not isinstance(text, str) or not text:
        return "<unknown>"
    try:
        return human_duration((now - datetime.fromisoformat(text)).total_seconds())
    except (ValueError, TypeError):
        return "<unknown>"


def _at(*path: str, default: Any = "") -> Cell:
    def cell(obj: Json, _now: datetime) -> Any:
        value = member_at(obj, path)
        return default if value is None else value

    return cell


def _name(obj: Json, _now: datetime) -> str:
    return str(obj["metadata"].get("name", ""))


def _age(obj: Json, now: datetime) -> str:
    return _ago(obj["metadata"].get("creationTimestamp"), now)


_NAME = (Column("Name", format="name", description="Name must be unique within a namespace."), _name)
_AGE = (Column("Age", description="Time since the object was created."), _age)


def _statuses(pod: Json) -> list[Json]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _ready(pod: Json, _now: datetime) -> str:
    ready = sum(1 for status in _statuses(pod) if status.get("ready"))
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _restarts(pod: Json, now: datetime) -> str:
    statuses = _statuses(pod)
    count = sum(status.get("restartCount") or 0 for status in statuses)
    ends = [((s.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    last = max(filter(None, ends), default=None)
    return f"{count} ({_ago(last, now)} ago)" if count and last else str(count)


def _pod_status(pod: Json, _now: datetime) -> str:
    """Return the status column of a pod, such as `Running`, `CrashLoopBackOff` or `Terminating`.

    A pod that is being deleted is `Terminating`, or `Unknown` if the reason in its status is `NodeLost`. For any other
    pod, the status is the reason of the first container that waits or has ended. If no container waits or has ended,
    the status is the reason or the phase of the pod.
    """
    status = pod.get("status") or {}
    word = status.get("reason") or status.get("phase") or "Unknown"
    for container in reversed(_statuses(pod)):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            word = waiting["reason"]
        elif terminated is not None:
            word = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(word)


_POD = TableFormat(
    _NAME,
    (Column("Ready", description="Containers that are ready, of all."), _ready),
    (Column("Status", description="The aggregate status of the containers in this pod."), _pod_status),
    (Column("Restarts", description="How often containers were restarted, and when last."), _restarts),
    _AGE,
    (Column("IP", priority=1), _at("status", "podIP", default="<none>")),
    (Column("Node", priority=1), _at("spec", "nodeName", default="<none>")),
    (Column("Nominated Node", priority=1), _at("status", "nominatedNodeName", default="<none>")),
    (Column("Readiness Gates", priority=1), lambda _obj, _now: "<none>"),
)


def _service_ports(service: Json, _now: datetime) -> str:
    ports = service["spec"].get("ports") or ()
    return ",".join(f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in ports) or "<none>"


def _pairs_at(*path: str) -> Cell:
    def cell(obj: Json, _now: datetime) -> str:
        pairs = member_at(obj, path) or {}
        return ",".join(f"{key}={value}" for key, value in sorted(pairs.items())) or "<none>"

    return cell


_SERVICE = TableFormat(
    _NAME,
    (Column("Type"), _at("spec", "type")),
    (Column("Cluster-IP"), _at("spec", "clusterIP", default="<none>")),
    (Column("External-IP"), lambda _obj, _now: "<none>"),
    (Column("Port(s)"), _service_ports),
    _AGE,
    (Column("Selector", priority=1), _pairs_at("spec", "selector")),
)


def _ready_of_all(deployment: Json, _now: datetime) -> str:
    ready = member_at(deployment, ("status", "readyReplicas")) or 0
    return f"{ready}/{deployment['spec'].get('replicas', 0)}"


def _of_containers(member: str) -> Cell:
    def cell(deployment: Json, _now: datetime) -> str:
        containers = member_at(deployment, ("spec", "template", "spec", "containers")) or ()
        return ",".join(str(container.get(member, "")) for container in containers)

    return cell


_DEPLOYMENT = TableFormat(
    _NAME,
    (Column("Ready", description="Pods that are ready, of all."), _ready_of_all),
    (Column("Up-to-date"), _at("status", "updatedReplicas", default=0)),
    (Column("Available"), _at("status", "availableReplicas", default=0)),
    _AGE,
    (Column("Containers", priority=1), _of_containers("name")),
    (Column("Images", priority=1), _of_containers("image")),
    (Column("Selector", priority=1), _pairs_at("spec", "selector", "matchLabels")),
)


def _last_seen(event: Json, now: datetime) -> str:
    series = event.get("series") or {}
    return _ago(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime"), now)


def _regarding(event: Json, _now: datetime) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _source(event: Json, _now: datetime) -> str:
    source = event.get("source") or {}
    return ", ".join(filter(None, (source.get("component"), source.get("host"))))


_EVENT_COLUMNS: Sequence[tuple[Column, Cell]] = (
    (Column("Last Seen"), _last_seen),
    (Column("Type"), _at("type")),
    (Column("Reason"), _at("reason")),
    (Column("Object"), _regarding),
    (Column("Subobject", priority=1), _at("involvedObject", "fieldPath")),
    (Column("Source", priority=1), _source),
    (Column("Message"), lambda obj, _now: str(obj.get("message") or "").strip()),
    (Column("First Seen", priority=1), lambda obj, now: _ago(obj.get("firstTimestamp") or obj.get("eventTime"), now)),
    (Column("Count", priority=1), _at("count", default=1)),
    (Column("Name", priority=1, format="name"), _name),
)
_EVENT = TableFormat(*_EVENT_COLUMNS)


def _of_older(cell: Cell) -> Cell:
    return lambda event, now: cell(older_event(event), now)


_NEWER_EVENT = TableFormat(*((column, _of_older(cell)) for column, cell in _EVENT_COLUMNS))


def _node_status(node: Json, _now: datetime) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((c.get("status") for c in conditions if c.get("type") == "Ready"), None)
    word = {"True": "Ready", "False": "NotReady"}.get(str(ready), "Unknown")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def _address(kind: str) -> Cell:
    def cell(node: Json, _now: datetime) -> str:
        addresses = (node.get("status") or {}).get("addresses") or ()
        return next((str(address["address"]) for address in addresses if address["type"] == kind), "<none>")

    return cell


_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _access_modes(claim: Json, _now: datetime) -> str:
    return ",".join(_ACCESS_MODES.get(mode, mode) for mode in member_at(claim, ("status", "accessModes")) or ())


def _served_versions(crd: Json, _now: datetime) -> str:
    versions = [version for version in crd["spec"].get("versions") or () if version.get("served")]
    return ",".join(version["name"] + ("(storage)" if version.get("storage") else "") for version in versions)


def _short_names(crd: Json, _now: datetime) -> str:
    return ",".join(member_at(crd, ("spec", "names", "shortNames")) or ())


def _is_established(crd: Json, _now: datetime) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


_BUILTIN: Mapping[str, TableFormat] = {
    "Pod": _POD,
    "Service": _SERVICE,
    "Deployment": _DEPLOYMENT,
    "Event": _EVENT,
    "Namespace": TableFormat(_NAME, (Column("Status"), _at("status", "phase")), _AGE),
    "Node": TableFormat(
        _NAME,
        (Column("Status"), _node_status),
        (Column("Roles"), lambda _obj, _now: "<none>"),
        _AGE,
        (Column("Version"), _at("status", "nodeInfo", "kubeletVersion")),
        (Column("Internal-IP", priority=1), _address("InternalIP")),
        (Column("External-IP", priority=1), _address("ExternalIP")),
        (Column("OS-Image", priority=1), _at("status", "nodeInfo", "osImage", default="<unknown>")),
        (Column("Kernel-Version", priority=1), _at("status", "nodeInfo", "kernelVersion", default="<unknown>")),
        (
            Column("Container-Runtime", priority=1),
            _at("status", "nodeInfo", "containerRuntimeVersion", default="<unknown>"),
        ),
    ),
    "ConfigMap": TableFormat(_NAME, (Column("Data"), lambda obj, _now: len(obj.get("data") or {})), _AGE),
    "Secret": TableFormat(
        _NAME,
        (Column("Type"), _at("type")),
        (Column("Data", type="integer"), lambda obj, _now: len(obj.get("data") or {})),
        _AGE,
    ),
    "ServiceAccount": TableFormat(_NAME, _AGE),
    "PersistentVolumeClaim": TableFormat(
        _NAME,
        (Column("Status"), _at("status", "phase")),
        (Column("Volume"), _at("spec", "volumeName")),
        (Column("Capacity"), _at("status", "capacity", "storage")),
        (Column("Access Modes"), _access_modes),
        (Column("StorageClass"), _at("spec", "storageClassName")),
        (Column("VolumeAttributesClass"), _at("spec", "volumeAttributesClassName", default="<unset>")),
        _AGE,
        (Column("VolumeMode", priority=1), _at("spec", "volumeMode", default="<unset>")),
    ),
    "PriorityClass": TableFormat(
        _NAME,
        (Column("Value", type="integer"), _at("value")),
        (Column("Global-Default", type="boolean"), _at("globalDefault", default=False)),
        _AGE,
        (Column("PreemptionPolicy"), _at("preemptionPolicy")),
    ),
    "CustomResourceDefinition": TableFormat(
        _NAME,
        (Column("Scope"), _at("spec", "scope")),
        (Column("Versions"), _served_versions),
        (Column("Created At", type="date"), _at("metadata", "creationTimestamp")),
        (Column("Group", priority=1), _at("spec", "group")),
        (Column("Kind", priority=1), _at("spec", "names", "kind")),
        (Column("ShortNames", priority=1), _short_names),
        (Column("Established", type="boolean", priority=1), _is_established),
    ),
    "Lease": TableFormat(_NAME, (Column("Holder"), _at("spec", "holderIdentity")), _AGE),
}
_PLAIN_FORMAT = TableFormat(_NAME, (Column("Created At"), _at("metadata", "creationTimestamp")))


def _custom(custom: CustomResource) -> TableFormat:
    columns: list[tuple[Column, Cell]] = [_NAME]
    columns += [(printed, _json_path_cell(printed.json_path, printed.type)) for printed in custom.columns]
    return TableFormat(*(columns if custom.columns else [_NAME, _AGE]))


def _json_path_cell(path: str, kind: str) -> Cell:
    find = compile_path(path)

    def cell(obj: Json, now: datetime) -> Any:
        values = find(obj)
        if not values:
            return None
        value = values[0]
        if kind == "date":
            return _ago(value, now)
        if kind == "string":
            return ",".join(map(str, values)) if len(values) > 1 else str(value)
        return value

    return cell


def table_formats(
    resources: Sequence[ResourceType], custom: Sequence[CustomResource]
) -> dict[ResourceType, TableFormat]:
    """Return the table format of each resource type."""
    formats = {resource: _BUILTIN.get(resource.kind, _PLAIN_FORMAT) for resource in resources}
    formats[NEWER_EVENTS] = _NEWER_EVENT
    formats.update({c.resource: _custom(c) for c in custom})
    return formats
