"""A job that is led into a state of its life, changed there, changed back, and compared with one created so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from hack.enumeration.fields.changes import NAME, V1, Subject, merge_patch
from hack.enumeration.world.world import NAMESPACE, Scenario, World
from hack.faults.oracle.history import true_conditions
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Act, JobShape, Step
from hack.faults.simulation.attachments import TENSORBOARD_LABEL, watched_kinds
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.views.objects import decode_partial
from tfoperator.operator.options.settings import Options

Json = dict[str, Any]

GANG = "coscheduler"
_OPTIONS = Options(gang_scheduler_name=GANG, exposed_tensorboards=True)
_ATTACHMENTS = Attachments(gang=GANG, tensorboards=True)
SHAPE = JobShape(NAME, {"PS": 1, "Worker": 2}, "ExitCode")
_REST = 6
_PAUSE = 6.0
"""Seconds: after six of them the second check has come twice."""

_CHANGING = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOLD = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "observedGeneration")
_DROPPED = {*_TOLD, "usage", "lastReconcileTime", "lastUpdateTime", "lastTransitionTime", "clusterIP", "clusterIPs"}


_CONDITIONS = ("conditions", "operatorConditions")
_SCALED = "pods have the new number of replicas when they are made again"
_ROOM = "a PodGroup keeps its size while no pod of its needs room"
_PORT = "spec.containers[0].ports[0].containerPort"
_ENDED = "a job that has ended stays so, and what its end has deleted is not made again"
BY_DESIGN = {
    "spec.cleanPodPolicy": _ENDED,
    "spec.elasticPolicy": "pods that exist keep the number of workers that they were made for",
    "spec.enableDynamicWorker": _ENDED,
    "spec.maxFailedWorkers": _ENDED,
    "spec.minSucceededWorkers": _ENDED,
    "spec.runPolicy.cleanPodPolicy": _ENDED,
    "spec.runPolicy.activeDeadlineSeconds": "the job's status says which replicas had run before it ended",
    "spec.runPolicy.backoffLimit": "restarts that were made count against the new limit, and are in the status",
    "spec.runPolicy.onStraggler": "failures on a node are counted from when the job avoids nodes",
    "spec.runPolicy.restartScope": "restarts that were made were of the scope of then, and are in the status",
    "spec.runPolicy.schedulingPolicy.minResources": _ROOM,
    "spec.runPolicy.schedulingPolicy.minResources.cpu": _ROOM,
    "spec.runPolicy.suspend": "a TensorBoard stays while its job is suspended; a job created suspended has none yet",
    "spec.tfReplicaSpecs.Worker": _SCALED,
    "spec.tfReplicaSpecs.Worker.replicas": _SCALED,
    f"spec.tfReplicaSpecs.Worker.template.{_PORT}": "a headless service keeps its port; programs go by TF_CONFIG",
    "spec.tfReplicaSpecs.Worker.restartPolicy": "the operator goes by the new policy; kubelets by that of the pod",
}
"""Fields whose change may leave a job different from a job created with the new value, and why no warning is needed."""


class Life(StrEnum):
    """The states in which a job is changed."""

    CREATED = "created"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Outcome(StrEnum):
    """The outcome of a change."""

    NAMED = "refused, with the field's name"
    UNNAMED = "refused without the field's name"
    SAME = "same as a new job"
    SAID = "different, and reported"
    DESIGNED = "different by design"
    SILENT = "different, and not reported"
    IMPOSSIBLE = "accepted, but refused in a new job"


@dataclass(frozen=True)
class Changed:
    """One change: its outcome, the operator's events after it, the differences, and what changing it back left."""

    outcome: Outcome
    said: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Refused(Exception):
    """The API server refuses such a job; the message has the reason."""


class _Lived(World):
    """A job from its creation into a state of its life."""

    def __init__(self, subject: Subject, spec: Json, life: Life) -> None:
        super().__init__(Scenario("fields", (SHAPE,), (), _OPTIONS, _ATTACHMENTS))
        self._start(leads=True)
        try:
            self.client.create(subject.resource, NAMESPACE, subject.job(spec), decode_partial)
        except KubeError as error:
            raise Refused(str(error)) from error
        self.run_for(2.5)
        if life is not Life.CREATED:
            self.go_on(2)
        match life:
            case Life.RESTARTING:
                self._step(Act.FAIL, 137)
            case Life.SUSPENDED:
                self.change({"runPolicy": {"suspend": True}})
                self.go_on(1)
            case Life.FAILED:
                for _ in range(2):
                    self._step(Act.FAIL, 1)
            case Life.SUCCEEDED:
                self.go_on(2, succeed=True)

    def _step(self, act: Act, code: int) -> None:
        self.simulator.act(Step(0.0, act, 0, 0.99, code))
        self.run_for(1.0)

    def go_on(self, times: int = _REST, *, succeed: bool = False) -> None:
        """Let kubelets and schedulers do their work."""
        for _ in range(times):
            self.simulator.make_progress(succeed=succeed)
            self.run_for(_PAUSE)

    def change(self, patch: Json, resource: Resource = TFJOBS) -> None:
        """Change the spec. Raises KubeError."""
        self.client.patch(resource, NAMESPACE, NAME, {"spec": patch}, decode_partial)

    def heard(self) -> list[str]:
        """Return all events of the operator so far."""
        return [f"{reason}: {message}" for _, _, reason, message in self.sent_events]

    def objects(self) -> dict[str, Json]:
        """Return all objects, without the fields that differ between two jobs of the same spec."""
        kinds = ("TFJob", "Pod", "Service", *watched_kinds(_ATTACHMENTS))
        recorded = (obj for kind in kinds for obj in self.recorder.current(kind))
        # The pod of a TensorBoard is its Deployment's, whose controller is simulated and makes it once.
        ours = (obj for obj in recorded if obj["kind"] != "Pod" or TENSORBOARD_LABEL not in obj["metadata"]["labels"])
        return {f"{obj['kind']} {obj['metadata']['name']}": plain(obj) for obj in ours}


def plain(obj: Json) -> Json:
    """An object without what differs from one job to another of the same spec."""
    data = _CHANGING.sub(b"*", msgspec.json.encode(_kept(obj)))
    plain: Json = msgspec.json.decode(data)
    return plain


def _kept(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "conditions" in value:
            true = {kind: condition.get("reason") for kind, condition in true_conditions(value).items()}
            return _kept({**{name: member for name, member in value.items() if name not in _CONDITIONS}, "true": true})
        return {name: _kept(member) for name, member in value.items() if name not in _DROPPED}
    return [_kept(item) for item in value] if isinstance(value, list) else value


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """The paths at which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = {**one, **other}
        return [
            difference for name in names for difference in differences(one.get(name), other.get(name), f"{path}.{name}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return [difference for at, (a, b) in enumerate(pairs) for difference in differences(a, b, f"{path}[{at}]")]
    return [] if one == other else [path]


def change(field: str, spec: Json, life: Life, subject: Subject = V1) -> Changed:
    """Change a whole job into one of this spec in a state of its life, and back."""
    world = _Lived(subject, subject.spec, life)
    heard = len(world.heard())
    try:
        world.change(merge_patch(subject.spec, spec), subject.resource)
    except KubeError as error:
        return refusal(field, str(error))
    world.go_on()
    messages = tuple(dict.fromkeys(world.heard()[heard:]))
    now = world.objects()
    try:
        created = _Lived(subject, spec, life)
    except Refused as error:
        return Changed(Outcome.IMPOSSIBLE, (str(error),))
    created.go_on()
    differs = tuple(differences(now, created.objects()))
    unchanged = _Lived(subject, subject.spec, life)
    unchanged.go_on(2 * _REST)
    try:
        world.change(merge_patch(spec, subject.spec), subject.resource)
        world.go_on()
        left = tuple(differences(world.objects(), unchanged.objects()))
    except KubeError as error:
        left = (str(error),)
    return Changed(outcome_of(field, life, messages, differs), messages, differs, left)


def refusal(field: str, why: str) -> Changed:
    """A change that the API server refuses, with this sentence."""
    return Changed(Outcome.NAMED if _last(field) in why else Outcome.UNNAMED, (why,))


def outcome_of(field: str, life: Life, said: Sequence[str], differs: Sequence[str]) -> Outcome:
    """Classify an accepted change by the messages after it, and by the differences from a new job with the value."""
    if not differs:
        return Outcome.SAME
    pods_alone = all(path.startswith(".Pod ") for path in differs)
    if any(_last(field) in message or (pods_alone and message.startswith("TemplateChanged")) for message in said):
        return Outcome.SAID
    ended = life in (Life.SUCCEEDED, Life.FAILED) and pods_alone  # whose pods stay as they were made
    return Outcome.DESIGNED if ended or field in BY_DESIGN else Outcome.SILENT


def _last(field: str) -> str:
    return field.rpartition(".")[2].rstrip("0123456789[]")
