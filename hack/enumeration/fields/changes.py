"""Jobs that have every field of a version of their API, and what each can be changed to. Pure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from tfoperator.api.conversion import v1_to_v1alpha2
from tfoperator.api.schema.crd import crd
from tfoperator.kube.protocol.resources import Resource

Json = dict[str, Any]
Key = str | int

NAME = "job-0"


class Edit(StrEnum):
    """The kind of change of a field."""

    OTHER = "another valid value"
    ZERO = "its zero"
    AWAY = "away"
    TYPE = "a value of another type"
    OUTSIDE = "a value outside its range, pattern or enumeration"


_TEMPLATE: Json = {
    "metadata": {"annotations": {"note": "one"}, "labels": {"team": "one"}},
    "spec": {
        "containers": [
            {
                "name": "tensorflow",
                "image": "example.invalid/train:1",
                "ports": [{"name": "tfjob-port", "containerPort": 2222}],
                "resources": {"requests": {"cpu": "250m"}},
            }
        ],
        "initContainers": [
            {
                "name": "prepare",
                "image": "example.invalid/prepare:1",
                "ports": [{"name": "prepare", "containerPort": 9000}],
            }
        ],
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 1,
    },
}

_CHOSEN: Json = {
    "checkpoint": {"mountPath": "/checkpoints", "volume": {"emptyDir": {}}},
    "clusterArguments": True,
    "dataService": {"port": 5050, "template": _TEMPLATE, "workDir": "/checkpoints/journal", "workers": 1},
    "enableDynamicWorker": True,
    "evaluatorInCluster": True,
    "maxFailedWorkers": 1,
    "minSucceededWorkers": 2,
    "network": "PerJob",
    "progress": {"enabled": False},
    "runPolicy": {
        "activeDeadlineSeconds": 3600,
        "backoffLimit": 3,
        "cleanPodPolicy": "Running",
        "managedBy": "kubeflow.org/training-operator",
        "onStall": "Report",
        "onStraggler": "Ignore",
        "progressDeadlineSeconds": 3600,
        "restartMode": "Recreate",
        "restartScope": "Replica",
        "startDeadlineSeconds": 3600,
        "schedulingPolicy": {
            "minAvailable": 2,
            "minResources": {"cpu": 1},
            "priorityClass": "high",
            "queue": "queue-1",
            "scheduleTimeoutSeconds": 60,
        },
        "suspend": False,
        "ttlSecondsAfterFinished": 3600,
    },
    "successPolicy": "",
    "tensorBoard": {
        "env": [{"name": "ONE", "value": "1"}],
        "image": "example.invalid/tensorboard:1",
        "imagePullSecrets": [{"name": "secret"}],
        "logDir": "/logs",
        "nodeSelector": {"disk": "ssd"},
        "resources": {"requests": {"cpu": "100m"}},
        "securityContext": {"runAsUser": 1000},
        "serviceAccountName": "board",
        "serviceType": "ClusterIP",
        "volumeMounts": [{"name": "logs", "mountPath": "/logs"}],
        "volumes": [{"name": "logs", "emptyDir": {}}],
    },
    "tfReplicaSpecs": {
        "PS": {
            "replicas": 1,
            "restartPolicy": "ExitCode",
            "template": {"spec": {"containers": [{"name": "tensorflow", "image": "example.invalid/ps:1"}]}},
        },
        "Worker": {"replicas": 2, "restartPolicy": "ExitCode", "template": _TEMPLATE},
    },
}
"""The values of fields, where `_value_of` derives none or another; of replica types workers stand for all."""


class NoValue(Exception):
    """A field needs an entry in a table of this file: the message names the table."""

    def __init__(self, path: tuple[Key, ...], table: str, what: str) -> None:
        super().__init__(f"{_text(path)} needs {what}: write it into {table} of hack/enumeration/fields/changes.py")


class Subject(NamedTuple):
    """The object to change: a whole job in a version of its API, and the schema of its spec, with every field."""

    version: str
    spec: Json
    schema: Json
    annotations: Json

    @property
    def resource(self) -> Resource:
        """Where jobs are changed in this version."""
        return Resource("kubeflow.org", self.version, "TFJob", "tfjobs")

    def job(self, spec: Json) -> Json:
        """A job of this spec."""
        meta = {"name": NAME, "annotations": self.annotations}
        job = {"apiVersion": f"kubeflow.org/{self.version}", "kind": "TFJob", "metadata": meta, "spec": spec}
        return copy.deepcopy(job)


# With open templates: the fields of pods are Kubernetes' own, and tests/contract/test_pod_rules.py is about them.
_SCHEMAS = {
    version["name"]: version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for version in crd(all_versions=True, open_templates=True)["spec"]["versions"]
}


def whole(chosen: Json, schema: Json, path: tuple[Key, ...] = ()) -> Json:
    """Return a spec that has every field that the schema describes: those in `chosen`, and for others a calm value.

    Raises NoValue for a field of which no value can be derived.
    """
    spec = dict(chosen)
    for name, field in schema.get("properties", {}).items():
        if name not in chosen:
            spec[name] = _value_of(field, (*path, name))
        elif isinstance(chosen[name], dict) and "properties" in field:
            spec[name] = whole(chosen[name], field, (*path, name))
    return spec


_AN_HOUR = 3600
"""The value of a new number, which most are seconds: so late that nothing comes of it in a play."""


def _value_of(schema: Json, path: tuple[Key, ...]) -> Any:
    """Return a value that changes little: the first choice, false, an hour."""
    kind = schema.get("type", "integer")
    if "enum" in schema:
        return next(choice for choice in schema["enum"] if choice)
    if kind == "integer":
        return min(max(_AN_HOUR, schema.get("minimum", 0)), schema.get("maximum", _AN_HOUR))
    if kind == "boolean":
        return False
    if "properties" in schema:
        return whole({}, schema, path)
    raise NoValue(path, "_CHOSEN", "a valid value")


_NOT_TOGETHER = ("elasticPolicy",)
"""Fields of v1 that contradict others: the whole job has the others, and `ELASTIC` has these."""


def _schema_of(names: Callable[[str], bool]) -> Json:
    """Return the schema of the spec of v1 with the fields that have such a name."""
    schema: Json = _SCHEMAS["v1"]
    return schema | {"properties": {name: field for name, field in schema["properties"].items() if names(name)}}


_TOGETHER = _schema_of(lambda name: name not in _NOT_TOGETHER)
V1 = Subject("v1", whole(_CHOSEN, _TOGETHER), _TOGETHER, {})
_ELASTIC: Json = {
    "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "shrinkAfterSeconds": _AN_HOUR, "growAfterSeconds": _AN_HOUR},
    "runPolicy": {"restartScope": "Job"},
    "tfReplicaSpecs": {"Worker": {"replicas": 2, "restartPolicy": "ExitCode", "template": _TEMPLATE}},
}
ELASTIC = Subject("v1", _ELASTIC, _schema_of(lambda name: name in _NOT_TOGETHER), {})
"""An elastic job: its fields contradict parameter servers, for example."""
_OLDER = v1_to_v1alpha2(V1.job(V1.spec)).obj
V1ALPHA2 = Subject("v1alpha2", _OLDER["spec"], _SCHEMAS["v1alpha2"], _OLDER["metadata"]["annotations"])
"""The same job, changed through the older version. The parts that only v1 has are in an annotation."""

_OTHERS: dict[str, Any] = {
    "activeDeadlineSeconds": 7200,
    "minResources": {"memory": "1Gi"},
    "cpu": "500m",
    "logDir": "/logs/others",
    "serviceType": "NodePort",
    "mountPath": "/others",
    "resources": {"requests": {"cpu": "200m"}},
    "securityContext": {"runAsUser": 2000},
    "volume": {"hostPath": {"path": "/others"}},
    "nodeSelector": {"disk": "hdd"},
    "restartPolicy": "OnFailure",
    "minSucceededWorkers": 1,
    "cleanPodPolicy": "All",
    "network": "PerReplica",
    "maxFailedWorkers": "50%",
    "ssd": "hdd",
}
"""Other valid values, by the last name of a path, where the kind of value does not suggest one."""

_WRONG_TYPE: dict[str, Any] = {"string": 7, "integer": "many", "boolean": "yes", "array": "list", "object": "object"}
_ZERO: dict[str, Any] = {"string": "", "integer": 0, "boolean": False, "array": [], "object": {}}
_ABSENT = object()


def fields(subject: Subject = V1) -> list[str]:
    """The path of every field that the CRD describes below `spec`, as people write it."""
    return [_text(path) for path, _ in _below(subject.schema, (), subject.spec)]


def changes(subject: Subject = V1) -> Iterator[tuple[str, Edit, Json]]:
    """Yield each field with its new value, and the whole spec then, unless the change would make no difference."""
    for path, schema in _below(subject.schema, (), subject.spec):
        for how, value in _values(path, schema, subject.spec):
            changed = copy.deepcopy(subject.spec)
            parent: Any = changed
            for key in path[:-1]:
                parent = parent[key]
            if value is not _ABSENT:
                parent[path[-1]] = value
            else:
                del parent[path[-1]]
            if changed != subject.spec:
                yield _text(path), how, changed


def merge_patch(old: Any, new: Any) -> Any:
    """Return the JSON merge patch that turns `old` into `new`."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    patch = {name: merge_patch(old[name], new[name]) for name in new if name in old and old[name] != new[name]}
    patch |= {name: value for name, value in new.items() if name not in old}
    return patch | {name: None for name in old if name not in new}


def _below(schema: Json, path: tuple[Key, ...], value: Any) -> Iterator[tuple[tuple[Key, ...], Json]]:
    members: dict[Key, Json] = {**schema.get("properties", {})}
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict):
        # The last member of a map, workers, is tried for all its members.
        members[list(value)[-1]] = rest
    if "items" in schema:
        members[0] = schema["items"]
    for key, child in members.items():
        yield (*path, key), child
        yield from _below(child, (*path, key), value[key])


def _text(path: tuple[Key, ...]) -> str:
    return "spec" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def _values(path: tuple[Key, ...], schema: Json, whole: Json) -> Iterator[tuple[Edit, Any]]:
    now: Any = whole
    for key in path:
        now = now[key]
    kind = str(schema.get("type", "integer"))
    yield from ((Edit.OTHER, value) for value in _other(path[-1], kind, schema, now))
    if kind not in _ZERO:
        raise NoValue(path, "_ZERO and _WRONG_TYPE", f"values of the type {kind}")
    yield Edit.ZERO, _ZERO[kind]
    yield Edit.AWAY, _ABSENT
    yield Edit.TYPE, [True] if schema.get("x-kubernetes-int-or-string") else _WRONG_TYPE[kind]
    if "minimum" in schema:
        yield Edit.OUTSIDE, schema["minimum"] - 1
    elif "enum" in schema:
        yield Edit.OUTSIDE, "Nonsense"
    elif "maxLength" in schema:
        yield Edit.OUTSIDE, "/" + "x" * schema["maxLength"]


def _other(key: Key, kind: str, schema: Json, now: Any) -> Iterator[Any]:
    if str(key) in _OTHERS:
        yield _OTHERS[str(key)]
    elif "enum" in schema:
        yield from [value for value in reversed(schema["enum"]) if value not in ("", now)][:1]
    elif kind == "integer":
        yield now + 1
    elif kind == "boolean":
        yield not now
    elif kind == "string":
        yield f"{now}2"
