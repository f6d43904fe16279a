"""The records of a run: the last state of its jobs and pods, its events, and the curves of its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.api.replicas.names import ANNOTATION_PARAMETERS, DEFAULT_CONTAINER_NAME
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.kube.protocol.resources import EVENTS, PODS, Resource
from tfoperator.kube.views.event import Event
from tfoperator.local.run.ending import RunEnd, ended_objects
from tfoperator.local.run.kept import MAX_RECORDS, RECORDS
from tfoperator.report.curves import Point

_KINDS = {(resource.api_version, resource.kind) for resource in (TFJOBS, PODS, EVENTS)}
_LEADS = ("Chief", "Master", "Worker")
_MAX_WORD = 200


class RunRecords(msgspec.Struct, frozen=True):
    """The last state of jobs and pods, the events, the curves of the metrics, and when the run began.

    `curves` contains, by the job's UID, the points of each metric by the metric's name.
    """

    objects: tuple[dict[str, Any], ...]
    curves: dict[str, dict[str, list[Point]]] = {}
    began: datetime | None = None

    @classmethod
    def of(
        cls,
        jobs: Iterable[bytes],
        pods: Iterable[bytes],
        events: Iterable[Event],
        curves: Mapping[str, dict[str, list[Point]]],
        *,
        began: datetime | None = None,
    ) -> RunRecords:
        """Create the records of a run that has not ended.

        If several pods have the same name, the records contain only the last of them.
        """
        of_jobs = [_as(TFJOBS, msgspec.json.decode(raw)) for raw in jobs]
        decoded = (_as(PODS, msgspec.json.decode(raw)) for raw in pods)
        latest = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in decoded}
        of_events = [_as(EVENTS, msgspec.to_builtins(event)) for event in events]
        return cls((*of_jobs, *latest.values(), *of_events), dict(curves), began)

    def ended(self, end: RunEnd) -> RunRecords:
        """Return the records in their state after the run's end."""
        return msgspec.structs.replace(self, objects=ended_objects(self.objects, end))


def read_records(run_dir: Path) -> RunRecords:
    """Read the records of a run. Raises OSError, or ValueError if the records are too large or not valid."""
    with (run_dir / RECORDS).open("rb") as stream:
        data = stream.read(MAX_RECORDS + 1)
    if len(data) > MAX_RECORDS:
        raise ValueError(f"{RECORDS} is larger than {MAX_RECORDS >> 20} MiB")
    try:
        records = msgspec.json.decode(data, type=RunRecords)
    except UNDECODABLE as error:  # not only ValueError: brackets may be nested too deeply
        raise ValueError(str(error)) from None
    for obj in records.objects:
        _check(obj)
    return records


def _check(obj: Mapping[str, Any]) -> None:
    """Raise ValueError if `obj` can't be an object of a run. This is possible: a user may have edited the records."""
    if (obj.get("apiVersion"), obj.get("kind")) not in _KINDS or not isinstance(obj.get("metadata"), dict):
        raise ValueError("an entry is not an object of a run")
    names = [obj["metadata"].get(member) for member in ("namespace", "name", "uid")]
    if not all(isinstance(name, str) and name for name in names):
        raise ValueError("an object has no name")
    PODS.path(names[0], names[1])  # raises ValueError if the namespace or the name is not valid


def parameters_of(job: Mapping[str, Any]) -> dict[str, str]:
    """Return a job's parameters.

    For a job that runs a Python function, these are the arguments of the function. For any other job, they come from
    the command line of the replica that leads the job: the chief, master or worker. Each of the arguments `--rate 0.1`,
    `--rate=0.1` and `rate=0.1` gives a parameter `rate`. The argument `--fast` gives a parameter `fast` with the value
    `yes`. All other arguments form the parameter `args`.
    """
    annotation = (job["metadata"].get("annotations") or {}).get(ANNOTATION_PARAMETERS)
    if annotation is not None:
        with suppress(*UNDECODABLE):
            return msgspec.json.decode(annotation, type=dict[str, str])
    specs = job["spec"].get("tfReplicaSpecs") or {}
    lead: Mapping[str, Any] = next((specs[kind] for kind in (*_LEADS, *specs) if specs.get(kind)), {})
    containers = ((lead.get("template") or {}).get("spec") or {}).get("containers") or ()
    program: Mapping[str, Any] = next(
        (container for container in containers if container.get("name") == DEFAULT_CONTAINER_NAME), {}
    )
    command = [str(word) for word in program.get("command") or ()]
    after = (at + 1 for at, word in enumerate(command) if word.endswith(".py") or command[at - 1 : at] == ["-m"])
    behind = command[next(after, len(command)) :]
    words = [str(word).replace("$$", "$") for word in (*behind, *(program.get("args") or ()))]
    return {name: _short(value) for name, value in _parsed(words).items()}


def _parsed(words: Sequence[str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    others, name = [], ""  # the option whose value may come next
    for word in words:
        left, equals, right = word.partition("=")
        if equals and (left.startswith("--") or left.isidentifier()):
            parameters[left.lstrip("-")], name = right, ""
        elif word.startswith("--") and len(word) > 2:
            name = word[2:]
            parameters[name] = "yes"
        elif name:
            parameters[name], name = word, ""
        else:
            others.append(word)
    return {**parameters, "args": " ".join(others)} if others else parameters


def _short(text: str) -> str:
    return text if len(text) <= _MAX_WORD else text[: _MAX_WORD - 3] + "..."


def _as(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
