"""The objects of a job in a simulated API server, and the function that applies a plan's actions to the objects."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from tfoperator.api.defaults import default
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.controller.plan.values.actions import Action, Create, Delete, Patch, Plan
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.controller.pods.pod_groups import PodGroup, decode_pod_group
from tfoperator.kube.patches.merge_patch import apply_merge_patch
from tfoperator.kube.patches.strategic_merge import strategic_merge
from tfoperator.kube.views.deployments import Deployment
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, Pod, PodSpec, Service
from tfoperator.kube.views.pod_status import PodStatus

TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
"""Of a simulated pod."""

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def simulated_job(name: str, spec: Mapping[str, Any], **metadata: Any) -> TFJob:
    """Return a job with defaults, as it was created at `NOW`; `metadata` is added to its metadata."""
    meta = {"name": name, "namespace": "ns", "uid": "job-uid", "generation": 1, "creationTimestamp": NOW.isoformat()}
    return default(decode_tfjob(json.dumps({"metadata": meta | metadata, "spec": spec}).encode()))


@dataclass
class SimulatedObjects:
    """Everything that belongs to the job, by name. Nothing in it moves but by `carry_out`.

    By default what a plan does must fit: it creates nothing that exists, and changes and deletes nothing that doesn't,
    and an object that is deleted is gone. Subclasses override `refuses`, `take_away` and `changed` to be less simple.
    """

    job: TFJob
    now: datetime = NOW
    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    deployments: dict[str, Deployment] = field(default_factory=dict)
    pod_groups: dict[str, PodGroup] = field(default_factory=dict)
    job_deleted: bool = False
    _uids: Any = field(default_factory=itertools.count)

    def observed(self, **more: Any) -> Observed:
        """Return what an operator sees if its caches are up to date."""
        return Observed(
            job=self.job,
            pods=tuple(self.pods.values()),
            services=tuple(self.services.values()),
            deployments=tuple(self.deployments.values()),
            pod_group=self.pod_groups.get(self.job.metadata.name),
            **more,
        )

    def carry_out(self, action: Action) -> None:
        """Do one action."""
        match action:
            case Create():
                if not self.refuses(action):
                    self._create(action)
            case Patch():
                self._patch(action)
            case Delete(kind="tfjobs"):
                self.job_deleted = True
            case Delete():
                self._delete(action)
        self.changed()

    def execute(self, plan: Plan, seen: TFJob) -> None:
        """Carry out a plan that was made for the job as it was `seen`, in the operator's order.

        An exception of `before_request` ends it: then the operator has died, or a request was lost.
        """
        if plan.write_status_first:
            self.before_request("status")
            self.write_status(plan, seen)
        self.look_into_pods(plan)
        for action in plan.actions:
            self.before_request("create" if isinstance(action, Create) else "delete")
            self.carry_out(action)
        if plan.write_status and not plan.write_status_first:
            self.before_request("status")
            self.write_status(plan, seen)

    def write_status(self, plan: Plan, seen: TFJob) -> None:
        """Give the job the planned status, which must differ from the status `seen` and survive its way as JSON."""
        assert plan.status != seen.status, "a status to write that says nothing new"
        assert msgspec.json.decode(msgspec.json.encode(plan.status), type=TFJobStatus) == plan.status
        self.job = msgspec.structs.replace(self.job, status=plan.status)
        self.changed()

    # The parts that differ from world to world.

    def refuses(self, creation: Create) -> bool:
        """Whether the API server refuses to create the object, because it is there."""
        assert creation.name not in self._of(creation.kind), f"created although it exists: {creation.name}"
        return False

    def take_away(self, kind: str, name: str, deletion: Delete) -> None:
        """The API server was asked to delete the object, which is there."""
        del deletion, self._of(kind)[name]

    def changed(self) -> None:
        """Something is different now."""

    def before_request(self, verb: str) -> None:
        """The operator is about to write: `verb` is create, delete (or patch), or status."""

    def look_into_pods(self, plan: Plan) -> None:
        """Take the stacks that the plan wants."""

    def put(self, pod: Pod) -> None:
        """Replace a pod by what a scheduler, a kubelet or a deletion has made of it."""
        self.pods[pod.metadata.name] = pod
        self.changed()

    # The interpreter.

    def _create(self, action: Create) -> None:
        metadata = msgspec.convert(json.loads(msgspec.json.encode(action.body))["metadata"], ObjectMeta)
        made: HasMetadata
        match action.kind:
            case "pods":
                body = action.body["spec"]
                spec = PodSpec(restart_policy=body.get("restartPolicy", ""), subdomain=body.get("subdomain", ""))
                made = Pod(metadata=self.born(metadata), spec=spec, status=PodStatus(phase="Pending"))
            case "services":
                made = Service(metadata=self.born(metadata))
            case "deployments":
                made = Deployment(metadata=self.born(metadata))
            case _:
                group = decode_pod_group(msgspec.json.encode(action.body | {"status": pod_group_status()}))
                made = msgspec.structs.replace(group, metadata=self.born(metadata))
        self._of(action.kind)[action.name] = made

    def _patch(self, action: Patch) -> None:
        current = self._of(action.kind).get(action.name)
        assert current is not None, f"changed although it is not there: {action.name}"
        assert current.metadata.uid == action.uid
        plain = json.loads(msgspec.json.encode(current))
        change = json.loads(msgspec.json.encode(action.body))
        merged = strategic_merge(plain, change, "Deployment") if action.strategic else apply_merge_patch(plain, change)
        self._of(action.kind)[action.name] = msgspec.convert(merged, type(current))

    def _delete(self, action: Delete) -> None:
        current = self._of(action.kind).get(action.name)
        if current is not None and current.metadata.uid == action.uid:
            self.take_away(action.kind, action.name, action)

    def born(self, metadata: ObjectMeta) -> ObjectMeta:
        """The metadata with what an API server adds."""
        uid = f"uid-{next(self._uids)}"
        return msgspec.structs.replace(metadata, uid=uid, creation_timestamp=self.now.replace(microsecond=0))

    def _of(self, kind: str) -> dict[str, Any]:
        by_kind: dict[str, dict[str, Any]] = {
            "pods": self.pods,
            "services": self.services,
            "deployments": self.deployments,
            "podgroups": self.pod_groups,
        }
        return by_kind[kind]


def pod_group_status() -> dict[str, str]:
    """Let a new PodGroup in at once: a PodGroup that a scheduler keeps waiting stands still."""
    return {"phase": "Inqueue"}
