"""Random lives of jobs that ask for anything, in a world without time of its own, with the plan of each step.

This world keeps fewer rules than a cluster. A container may restart without a reason, a report may exist without a
program, and a request may be forgotten. So no oracle judges it, and it reaches states that scenarios don't: the plans
are compared with those that were recorded.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from hack.faults.oracle.clients import PEER_TYPES, RULES
from hack.random_jobs.chances import chance
from hack.random_jobs.manifests import CALM, SIZES, random_manifest, random_policy
from hack.random_jobs.memory import Witnesses, random_memory
from hack.random_jobs.options import random_options
from hack.random_jobs.pods import changed_pod, changed_pod_group, failed_pod
from hack.random_jobs.status import odd_status
from hack.simulated_objects import NOW, SimulatedObjects
from hack.simulated_pods import terminating
from tfoperator.api.defaults import default
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.parts.run_policy import RunPolicy
from tfoperator.api.v1.parts.tensorboard import TensorBoard
from tfoperator.api.v1.status import JobUsage, TFJobStatus
from tfoperator.api.v1.types import ReplicaSpec, decode_tfjob
from tfoperator.controller.plan.combine import is_last_plan
from tfoperator.controller.plan.decide import plan
from tfoperator.controller.plan.values.actions import Create, Delete, Plan
from tfoperator.controller.plan.values.observed import Observed, deciding_pods
from tfoperator.kube.views.objects import ObjectMeta

Json = dict[str, Any]

_STEPS = 20
_PAUSES = (0, 0.25, 0.25, 0.5, 1, 1, 1, 1, 1, 2, 2, 5, 9, 10, 11, 20, 29, 30, 31, 60)
"""Seconds between two steps: those around which periods of jobs end, too."""

_LAG = timedelta(seconds=2)

_encode = msgspec.json.Encoder(order="deterministic", enc_hook=repr).encode


def random_life(rng: random.Random) -> Iterator[str]:
    """Yield the result of each plan of a life, as JSON, with the parts that the API server would refuse."""
    life = _Life(rng)
    for _ in range(_STEPS):
        planned, deciding = life.step()
        yield _encode(planned).decode()
        yield f"decided by {deciding}"


class _Life(SimulatedObjects):
    """One job, its objects, and an operator that mostly does what it plans."""

    def __init__(self, rng: random.Random) -> None:
        manifest = random_manifest(rng, CALM)
        super().__init__(default(decode_tfjob(msgspec.json.encode(manifest))))
        self._rng = rng
        self._options = random_options(rng)
        self._inside = Witnesses.of(rng)
        self._usage: JobUsage | None = None
        self._written = self._known = NOW

    def step(self) -> tuple[Plan, list[str]]:
        """Change something, let time pass, plan, and carry most of it out; the plan, and the pods that decided."""
        rng = self._rng
        self.now += timedelta(seconds=rng.choice(_PAUSES))
        if chance(rng, 0.08):
            self._edit()
        if chance(rng, 0.01):
            self._options = random_options(rng)
        if chance(rng, 0.03):
            self.job = replace(self.job, status=odd_status(rng, self.job.status, self.now))
        all_fail = chance(rng, 0.01)
        for name, pod in list(self.pods.items()):
            if changed := (failed_pod if all_fail else changed_pod)(rng, pod, self.now):
                self.pods[name] = changed
            else:
                del self.pods[name]
        self.pod_groups = {name: changed_pod_group(rng, group) for name, group in self.pod_groups.items()}
        self._disturb()
        memory = random_memory(rng, self.job, tuple(self.pods.values()), self.now, self._inside)
        known_for, age = (self.now - self._known).total_seconds(), (self.now - self._written).total_seconds()
        observed = self.observed(usage=self._usage, known_for=known_for, status_age=age, **memory)
        planned = plan(observed, self.now, self._options)
        if planned.write_status and is_last_plan(planned, observed):
            self._expect_rest(observed, planned.status)
        self._usage = planned.status.usage if chance(rng, 0.8) else None
        for action in planned.actions:
            if chance(rng, 0.9):
                self.carry_out(action)
        if planned.write_status and planned.status != self.job.status and chance(rng, 0.9):
            self.job = replace(self.job, status=planned.status)
            self._written = self.now
            self._expect_no_client_misled()
        return planned, [deciding_pod.name for deciding_pod in deciding_pods(observed, planned.status, self.now - _LAG)]

    def _expect_no_client_misled(self) -> None:
        """Read the status as foreign clients do. Raises AssertionError if they read more than the Go operator's types.

        A job whose time to live is over keeps what a person wrote there until it is deleted.
        """
        if self.job.spec.policy.ttl_seconds_after_finished is not None and final_condition(self.job) is not None:
            return
        status: Json = msgspec.json.decode(msgspec.json.encode(self.job.status))
        known_conditions = [condition for condition in status.get("conditions", ()) if condition["type"] in PEER_TYPES]
        for client, rule in RULES.items():
            assert rule(status) == rule({**status, "conditions": known_conditions}), (client, status)

    def _expect_rest(self, observed: Observed, status: TFJobStatus) -> None:
        """Plan once more with the status that a last plan has written. Raises AssertionError if it was not the last."""
        job, usage = replace(self.job, status=status), status.usage or observed.usage
        after = replace(observed, job=job, comparison=None, edited_templates=(), status_age=0.0, usage=usage)
        following = plan(after, self.now, self._options)
        assert is_last_plan(following, after), following
        assert not following.write_status, following

    def observed(self, **more: Any) -> Observed:
        """Return what an operator sees: of several objects any comes first."""
        return super().observed(**more) if chance(self._rng, 0.7) else self._shuffled(super().observed(**more))

    def _shuffled(self, observed: Observed) -> Observed:
        rng, pods, services = self._rng, observed.pods, observed.services
        return replace(
            observed, pods=tuple(rng.sample(pods, len(pods))), services=tuple(rng.sample(services, len(services)))
        )

    def refuses(self, creation: Create) -> bool:
        """Refuse what is there already."""
        return creation.name in self._of(creation.kind)

    def born(self, metadata: ObjectMeta) -> ObjectMeta:
        """Return the metadata with what an API server adds."""
        made = super().born(metadata)
        return replace(made, resource_version=made.uid.removeprefix("uid-"))

    def take_away(self, kind: str, name: str, deletion: Delete) -> None:
        """Let programs that run have their time to end."""
        pod = self.pods.get(name) if kind == "pods" else None
        if pod is not None and pod.status.phase == "Running" and deletion.grace_period_seconds != 0:
            self.pods[name] = terminating(pod, self.now)
        else:
            super().take_away(kind, name, deletion)

    def _edit(self) -> None:
        """Change the job's spec, or delete it, as its user does."""
        rng, spec = self._rng, self.job.spec
        kind = rng.choice(list(spec.tf_replica_specs) or list(ReplicaType))
        specs, policy = dict(spec.tf_replica_specs), spec.policy
        metadata = replace(self.job.metadata, generation=self.job.metadata.generation + 1)
        match rng.choices(range(7), (1, 8, 4, 6, 5, 2, 1))[0]:
            case 0:
                metadata = replace(metadata, deletion_timestamp=self.now)
            case 1:
                policy = replace(policy, suspend=not spec.suspended)
            case 2:
                policy = replace(msgspec.convert(random_policy(rng, CALM), RunPolicy), suspend=spec.suspended)
            case 3:
                specs[kind] = replace(specs.get(kind) or ReplicaSpec(), replicas=rng.choice(SIZES))
            case 4:
                specs[rng.choice(list(ReplicaType))] = specs.pop(kind, None)
            case 5:
                spec = replace(spec, tensor_board=rng.choice((None, TensorBoard(log_dir="/logs"))))
            case _:
                specs = {}
        spec = replace(spec, run_policy=policy, tf_replica_specs=specs)
        self.job = default(replace(self.job, metadata=metadata, spec=spec))

    def _disturb(self) -> None:
        """Do now and then what others do: delete an object, or make one twice."""
        kinds: tuple[dict[str, Any], ...] = (self.pods, self.services, self.deployments, self.pod_groups)
        for objects in kinds:
            for name, obj in sorted(objects.items()):
                if chance(self._rng, 0.02):
                    del objects[name]
                elif objects is not self.pod_groups and chance(self._rng, 0.03):
                    twin = replace(obj, metadata=self._twin(obj.metadata))
                    objects[twin.metadata.name] = twin
                elif chance(self._rng, 0.02):
                    objects[name] = terminating(obj, self.now)

    def _twin(self, metadata: ObjectMeta) -> ObjectMeta:
        return replace(self.born(metadata), name=f"{metadata.name}-twin")
