"""Random TFJobs: one table has the values of each field, `Chances` how often a field is set, and how often oddly."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hack.random_jobs.chances import chance
from hack.random_jobs.status import random_status
from hack.simulated_objects import NOW
from tfoperator.api.replicas.names import GANG_TOPOLOGY_ANNOTATION
from tfoperator.api.v1.choices import Network, ReplicaType

Json = dict[str, Any]
Make = Callable[["_Draw"], Any]

SIZES = (0, *[1] * 6, *[2] * 6, 3, 3, 4, 7, 7)
"""Of a replica type."""


class Chances(NamedTuple):
    """How often a field is set, by its name in the table; a field without a chance never is.

    `odd` is how often a field that is set gets an odd value, if it has any. `kinds` are the numbers of replica types.
    """

    fields: Mapping[str, float]
    kinds: tuple[int, ...]
    odd: float = 0.0


class Values(NamedTuple):
    """The values of a field: one of a tuple, what a function makes, or a constant; and those that are odd."""

    usual: Any
    odd: tuple[Any, ...] | Make = ()


def _any_number(bound: int) -> Make:
    return lambda draw: draw.rng.randint(-bound, bound)


def _members(name: str) -> Make:
    return lambda draw: draw.members(name)


def _flag(draw: _Draw) -> bool:
    return chance(draw.rng, 0.5)


def _odd_size(draw: _Draw) -> int:
    return 1000 if chance(draw.rng, 0.02) else draw.rng.randint(-(10**12), 10**12)


_ODD_SHARES = (10_001, "0%", "1%", "101%", "x%")
_VARIABLES = tuple([{"name": name, "value": "1"}] for name in ("A", "", "TENSORBOARD_PORT"))

TABLE: Mapping[str, Mapping[str, Values]] = {
    "spec": {
        "minSucceededWorkers": Values((0, 1, 2, "50%", "100%"), _ODD_SHARES),
        "maxFailedWorkers": Values((0, 1, 2, "50%"), _ODD_SHARES),
        "enableDynamicWorker": Values(True, (False,)),
        "evaluatorInCluster": Values(_flag),
        "network": Values(tuple(map(str, Network)), ("", "perjob")),
        "tensorBoard": Values(_members("tensorBoard")),
        "checkpoint": Values(
            {"volume": {"emptyDir": {}}, "mountPath": "/ckpt"},
            ({"volume": {"emptyDir": {}}, "mountPath": "x"}, {"volume": {"emptyDir": {}}, "mountPath": "/"}),
        ),
        "successPolicy": Values("AllWorkers", ("",)),
        "clusterArguments": Values(True, (False,)),
    },
    "tensorBoard": {
        "logDir": Values("/logs", ("gs://b", "")),
        "serviceType": Values("NodePort", ("", "odd")),
        "image": Values("i:1", ("",)),
        "env": Values(_VARIABLES[0], _VARIABLES[1:]),
        "imagePullSecrets": Values([{"name": "registry"}], ([{"name": ""}],)),
        "nodeSelector": Values(({"disk": "fast"}, {"disk": "slow"})),
        "securityContext": Values(({}, {"runAsUser": 1000}, {"fsGroup": 1})),
        "serviceAccountName": Values("reader", ("",)),
    },
    "runPolicy": {
        "cleanPodPolicy": Values(("All", "Running", "None"), ("",)),
        "ttlSecondsAfterFinished": Values((0, 1, 30), _any_number(10**25)),
        "activeDeadlineSeconds": Values((1, 10, 30, 600, 6000), _any_number(10**25)),
        "backoffLimit": Values((0, 1, 2, 9), _any_number(10**30)),
        "restartScope": Values("Job", ("Replica", "")),
        "restartMode": Values("InPlace", ("Recreate", "")),
        "suspend": Values(_flag),
        "onStraggler": Values(("Ignore", "Restart"), ("",)),
        "managedBy": Values((*["kubeflow.org/training-operator"] * 5, "someone"), ("",)),
        "schedulingPolicy": Values(_members("schedulingPolicy")),
        "startDeadlineSeconds": Values((1, 60, 600), _any_number(10**25)),
    },
    "schedulingPolicy": {
        "minAvailable": Values((1, 2, 5), (0,)),
        "priorityClass": Values(("x", "high"), ("", "system-cluster-critical")),
        "queue": Values("shared", ("",)),
        "minResources": Values({"cpu": "3"}, ({"cpu": "x"}, {})),
    },
    "stall": {
        "progressDeadlineSeconds": Values((30, 30, 30, 60, 60, 2**31 - 1), _any_number(10**25)),
        "onStall": Values(("Report", "Restart", "Fail"), ("",)),
    },
    "container": {
        "requests": Values((1, "500m"), ("", "x")),
        "ports": Values([{"name": "tfjob-port", "containerPort": 2222}], _any_number(10**12)),
        "args": Values(["a"]),
    },
    "pod": {
        "priorityClassName": Values(("x", "high")),
        "schedulerName": Values("own"),
        "hostname": Values("h"),
        "restartPolicy": Values(("Always", "Never")),
        "hostNetwork": Values(True),
        "subdomain": Values("mnist", (1,)),
    },
    "replica": {
        "restartPolicy": Values(("Always", "OnFailure", "Never", "ExitCode", "ExitCode")),
        "replicas": Values(SIZES, _odd_size),
    },
    "labels": {"kueue.x-k8s.io/queue-name": Values("q"), "kueue.x-k8s.io/multikueue-origin": Values("o")},
    "annotations": {GANG_TOPOLOGY_ANNOTATION: Values("rack")},
}
"""Every field that is drawn, in this order."""


def _of(group: str, share: float) -> dict[str, float]:
    return {f"{group}.{name}": share for name in TABLE[group]}


CALM = Chances(
    {
        **_of("spec", 0.15), "spec.successPolicy": 0.35, "spec.clusterArguments": 0.0,
        "tensorBoard.logDir": 1.0, "tensorBoard.serviceType": 0.5,
        **_of("runPolicy", 0.25), "runPolicy.startDeadlineSeconds": 0.0,
        **_of("schedulingPolicy", 0.4),
        "stall": 0.35, **_of("stall", 1.0),
        "container.requests": 0.3, "pod.priorityClassName": 0.2,
        "pod.schedulerName": 0.05, "pod.hostname": 0.05, "pod.restartPolicy": 0.1, "pod.hostNetwork": 0.1,
        **_of("replica", 1.0), **_of("labels", 0.1), **_of("annotations", 0.2),
    },
    kinds=(1, 2, 2, 3),
)  # fmt: skip
"""The chances for the jobs in the recorded random lives. After a change of these chances, or of the order of the table,
record the plays again.
"""

ODD = Chances(
    {
        **_of("spec", 0.15), "spec.clusterArguments": 0.3, **_of("tensorBoard", 0.3), "tensorBoard.logDir": 0.9,
        **_of("runPolicy", 0.4),
        **_of("schedulingPolicy", 0.3), "stall": 0.6, **_of("stall", 0.7), **_of("container", 0.2), **_of("pod", 0.1),
        **_of("replica", 0.8), **_of("labels", 0.1), **_of("annotations", 0.2), "status": 0.5,
    },
    kinds=(1, 1, 2, 3),
    odd=0.06,
)  # fmt: skip
"""Jobs as a careless user writes them, with every field, and with a status that others may have left."""


def random_manifest(rng: random.Random, chances: Chances) -> Json:
    """Return a TFJob."""
    draw = _Draw(rng, chances)
    kinds = rng.sample(list(ReplicaType), rng.choice(chances.kinds))
    spec = draw.members("spec")
    spec |= {"runPolicy": random_policy(rng, chances), "tfReplicaSpecs": {str(kind): draw.replica() for kind in kinds}}
    if chance(rng, 0.03):
        odd = rng.choice((None, {"replicas": 1}, {"replicas": rng.choice((-1, 10**6, "x"))}))
        spec["tfReplicaSpecs"][str(rng.choice(kinds))] = odd
    labels = draw.members("labels")
    name = "mnist" if chance(rng, 0.97) else f"mnist-{'x' * 50}"
    metadata = {"name": name, "namespace": "ns", "uid": "job-uid", "generation": 1, "labels": labels}
    metadata["annotations"] = draw.members("annotations")
    metadata["creationTimestamp"] = NOW.isoformat()
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}
    return manifest | ({"status": random_status(rng)} if draw.sets("status") else {})


def random_policy(rng: random.Random, chances: Chances) -> Json:
    """Return a run policy."""
    draw = _Draw(rng, chances)
    policy = draw.members("runPolicy")
    return policy | (draw.members("stall") if draw.sets("stall") else {})


class _Draw:
    """Draws fields of the table."""

    def __init__(self, rng: random.Random, chances: Chances) -> None:
        self.rng = rng
        self._chances = chances

    def sets(self, field: str) -> bool:
        """Return whether a field is set. If it is certain, it takes no random number."""
        share = self._chances.fields.get(field, 0.0)
        return share >= 1.0 or (share > 0.0 and chance(self.rng, share))

    def members(self, group: str) -> Json:
        """Return the fields of a group that are set."""
        return {name: self._value(values) for name, values in TABLE[group].items() if self.sets(f"{group}.{name}")}

    def replica(self) -> Json:
        """Return a replica type's part of a job."""
        container: Json = {"name": "tensorflow", "image": "example.com/train:1"}
        drawn = self.members("container")
        if "requests" in drawn:
            container["resources"] = {"requests": {"cpu": drawn.pop("requests"), "memory": "1Gi"}}
        pod = {"containers": [container | drawn], **self.members("pod")}
        return {**self.members("replica"), "template": {"spec": pod}}

    def _value(self, values: Values) -> Any:
        is_odd = values.odd and self._chances.odd and chance(self.rng, self._chances.odd)
        chosen = values.odd if is_odd else values.usual
        if callable(chosen):
            return chosen(self)
        return copy.deepcopy(self.rng.choice(chosen) if isinstance(chosen, tuple) else chosen)
