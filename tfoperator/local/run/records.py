"""What is kept of a run that has ended, and an API server that serves it again: the same commands and page read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tfoperator.api.names import ANNOTATION_PARAMETERS, ANNOTATION_STOPPED, DEFAULT_CONTAINER_NAME
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.errors import UNDECODABLE
from tfoperator.kube.event import Event
from tfoperator.kube.resources import EVENTS, PODS, Resource
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.local.controlplane import client_config
from tfoperator.local.node.log_store import LogStore
from tfoperator.report.curves import Curves, Point

RECORDS = "records.json"
"""The file in a run's directory."""

MAX_RECORDS = 256 << 20
"""Bytes of the file that are read: about 50,000 pods."""

_KINDS = {(resource.api_version, resource.kind) for resource in (TFJOBS, PODS, EVENTS)}
_LEADS = ("Chief", "Master", "Worker")
_MAX_WORD = 200


class RunRecords(msgspec.Struct, frozen=True):
    """The last state of jobs and pods, the events, and the curves of each job by its UID."""

    objects: tuple[dict[str, Any], ...]
    curves: dict[str, dict[str, list[Point]]] = {}

    @classmethod
    def of(
        cls, jobs: Iterable[bytes], pods: Iterable[bytes], events: Iterable[Event], curves: Mapping[str, Curves]
    ) -> RunRecords:
        """Make the records of a run. Of several pods with one name, the last counts."""
        found = [_as(TFJOBS, msgspec.json.decode(raw)) for raw in jobs]
        decoded = (_as(PODS, msgspec.json.decode(raw)) for raw in pods)
        latest = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in decoded}
        for obj in latest.values():
            if "deletionTimestamp" in obj["metadata"]:
                obj["metadata"].setdefault("annotations", {}).setdefault(ANNOTATION_STOPPED, "run-ended")
                obj["spec"].setdefault("activeDeadlineSeconds", 1)
            for member in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
                obj["metadata"].pop(member, None)  # the run's end stopped it, nobody deletes it now
        told = [_as(EVENTS, msgspec.to_builtins(event)) for event in events]
        return cls((*found, *latest.values(), *told), {uid: one.points() for uid, one in curves.items()})


def read_records(run_dir: Path) -> RunRecords:
    """Read the records of a run. Raises OSError, ValueError."""
    with (run_dir / RECORDS).open("rb") as stream:
        data = stream.read(MAX_RECORDS + 1)
    if len(data) > MAX_RECORDS:
        raise ValueError(f"{RECORDS} is larger than {MAX_RECORDS >> 20} MiB")
    return msgspec.json.decode(data, type=RunRecords)


class RecordedRun:
    """The API of a run that has ended, as long as the block lasts. Nothing in it runs, and nothing changes it."""

    def __init__(self, run_dir: Path) -> None:
        """Read the records. Raises OSError, ValueError."""
        records = read_records(run_dir)
        for obj in records.objects:
            if (obj.get("apiVersion"), obj.get("kind")) not in _KINDS or not isinstance(obj.get("metadata"), dict):
                raise ValueError("something in it is no object of a run")
            names = [obj["metadata"].get(member) for member in ("namespace", "name", "uid")]
            if not all(isinstance(name, str) and name for name in names):
                raise ValueError("an object in it has no name")
            PODS.path(names[0], names[1])  # raises ValueError for a word that can be no name
        logs = LogStore(run_dir / "logs")
        logs.reopen()
        self.curves = {uid: Curves(points) for uid, points in records.curves.items()}
        self.jobs = [obj["metadata"] for obj in records.objects if obj.get("kind") == TFJOBS.kind]
        """The metadata of its jobs."""
        self._server = EmbeddedApiServer(log_reader=logs.read, objects=records.objects)

    def __enter__(self) -> RecordedRun:
        self._server.start()
        self.client = Client(client_config(self._server))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.close()
        self._server.stop()


def parameters_of(job: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that a job trains with: those of its function, or the arguments of what leads it.

    `--rate 0.1`, `--rate=0.1` and `rate=0.1` are a parameter `rate`, `--fast` is one that says yes; the other arguments
    are `args`.
    """
    said = (job["metadata"].get("annotations") or {}).get(ANNOTATION_PARAMETERS)
    if said is not None:
        with suppress(*UNDECODABLE):
            return msgspec.json.decode(said, type=dict[str, str])
    specs = job["spec"].get("tfReplicaSpecs") or {}
    lead: Mapping[str, Any] = next((specs[kind] for kind in (*_LEADS, *specs) if specs.get(kind)), {})
    containers = ((lead.get("template") or {}).get("spec") or {}).get("containers") or ()
    program: Mapping[str, Any] = next((one for one in containers if one.get("name") == DEFAULT_CONTAINER_NAME), {})
    command = [str(word) for word in program.get("command") or ()]
    after = (at + 1 for at, word in enumerate(command) if word.endswith(".py") or command[at - 1 : at] == ["-m"])
    behind = command[next(after, len(command)) :]
    words = [str(word).replace("$$", "$") for word in (*behind, *(program.get("args") or ()))]
    return {name: _short(value) for name, value in _parsed(words).items()}


def _parsed(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    others, name = [], ""  # the option whose value may come next
    for word in words:
        left, equals, right = word.partition("=")
        if equals and (left.startswith("--") or left.isidentifier()):
            found[left.lstrip("-")], name = right, ""
        elif word.startswith("--") and len(word) > 2:
            name = word[2:]
            found[name] = "yes"
        elif name:
            found[name], name = word, ""
        else:
            others.append(word)
    return {**found, "args": " ".join(others)} if others else found


def _short(text: str) -> str:
    return text if len(text) <= _MAX_WORD else text[: _MAX_WORD - 3] + "..."


def _as(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
