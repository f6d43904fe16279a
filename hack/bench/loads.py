"""The work of the contestants: the TFJobs of each load, whether they end, and what is measured afterwards.

A load is a value; the manifests are pure functions of it, so that every contestant and the floor get the very same
bytes. Pods carry a node's name, so there is no scheduler in the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]

NAMESPACE = "bench"
NODE = "bench-node"
FINISH_LABEL = "bench/finish"
"""Label of pods that succeed by themselves, `FINISH_SECONDS` after they began to run."""
FINISH_SECONDS = 5
IMAGE = "example.invalid/train:1"
PORT = 2222
_LONGEST = 1200.0
_KWOK_LONGEST = 3600.0  # on two cores kwok alone, as kubelet, needs 20 minutes until 100,000 pods run
_PREFIX = "training.kubeflow.org/"


@dataclass(frozen=True)
class Load:
    """`jobs` TFJobs with so many replicas each, and what happens when they run.

    `finishes`: the workers succeed after a while, and the rest is cleaned up; else everything stays Running.
    `idle_seconds`: what the operator does when nothing happens. `restarts`: the operator is started anew beside the
    running jobs. `churn_rounds`: so often, `churn_period` seconds apart, a tenth of the pods is killed.
    `reports_seconds`: for so long each job reports its progress every 5 s, which only our operator takes.
    `per_job`: the replicas of a job have one headless service (`spec.network: PerJob`, which contestants choose by
    themselves: the TFJobs are the same) and not one each.
    `dynamic`: workers may come and go (`enableDynamicWorker`), so TF_CONFIG names a worker itself and no other; else it
    names all of them to each, which is the square of their number in bytes.
    `heavy`: contestants with a narrow client-side rate limit would take half an hour, so they are left out unless they
    are asked for by name. `on_request`: the load itself is run only if it is asked for by name.
    `limit_seconds`: whoever has not finished by then does not finish; 0 is a limit by the number of pods.
    """

    name: str
    jobs: int
    ps: int = 1
    workers: int = 2
    finishes: bool = False
    idle_seconds: float = 0.0
    restarts: bool = False
    churn_rounds: int = 0
    churn_period: float = 10.0
    heavy: bool = False
    reports_seconds: float = 0.0
    per_job: bool = False
    dynamic: bool = False
    on_request: bool = False
    limit_seconds: float = 0.0

    @property
    def pods(self) -> int:
        """All pods of all jobs."""
        return self.jobs * (self.ps + self.workers)

    @property
    def title(self) -> str:
        """Return a title of a few words for people."""
        workers = f"{self.workers} worker{'s' if self.workers > 1 else ''}"
        each = f"{self.ps} PS + {workers}" if self.ps else workers
        shape = f"{self.jobs} job{'s' if self.jobs > 1 else ''} of {each}"
        if self.finishes:
            return f"{shape}, workers finish after {FINISH_SECONDS} s"
        if self.churn_rounds:
            return f"{shape}, {self.churn_rounds} times a tenth of the pods killed"
        if self.reports_seconds:
            return f"{shape}, report every 5 s for {self.reports_seconds:.0f} s"
        return f"{shape}, stay Running"

    def scaled(self, factor: float) -> Load:
        """The same in small (or large), with at least two jobs where there are several."""
        if factor == 1:
            return self

        def scale(number: int, least: int) -> int:
            return max(min(number, least), round(number * factor))

        is_single = self.jobs == 1
        return replace(
            self,
            jobs=scale(self.jobs, 2),
            ps=scale(self.ps, 1) if is_single else self.ps,
            workers=scale(self.workers, 2) if is_single else self.workers,
            idle_seconds=max(self.idle_seconds * min(factor, 1), min(self.idle_seconds, 3.0)),
            churn_rounds=scale(self.churn_rounds, 1),
            reports_seconds=max(self.reports_seconds * min(factor, 1), min(self.reports_seconds, 20.0)),
        )


LOADS = {
    load.name: load
    for load in (
        Load("finish", jobs=200, finishes=True),
        Load("small", jobs=200),
        Load("medium", jobs=500, idle_seconds=60),
        Load("large", jobs=2000, restarts=True, heavy=True),
        Load("ones", jobs=350, ps=0, workers=1),
        Load("fives", jobs=350, workers=4),
        Load("hundreds", jobs=8, ps=0, workers=100),
        Load("wide", jobs=1, ps=20, workers=300),
        Load("widest", jobs=1, ps=0, workers=1000, heavy=True),
        Load("churn", jobs=500, churn_rounds=6, heavy=True),
        Load("progress", jobs=1000, ps=0, reports_seconds=300),
        Load("huge", jobs=10_000, idle_seconds=60, restarts=True, heavy=True, on_request=True, limit_seconds=_LONGEST),
        Load(
            "pods",
            jobs=100,
            ps=0,
            workers=1000,
            dynamic=True,
            idle_seconds=60,
            restarts=True,
            heavy=True,
            on_request=True,
            limit_seconds=_KWOK_LONGEST,
        ),
    )
}


QUICK_LOADS = [
    replace(LOADS[name].scaled(factor), idle_seconds=0.0)
    for name, factor in (("finish", 0.15), ("medium", 0.2), ("fives", 0.15), ("wide", 0.3), ("churn", 0.2))
]
"""The loads that three contestants can do in five minutes, of which the starts of control planes take the most."""


@dataclass(frozen=True)
class Replica:
    """One replica of one job: what its pod and its service are called and labelled."""

    job: str
    kind: str  # as in the spec: PS, Worker
    index: int

    @property
    def name(self) -> str:
        """Of the pod and of the service."""
        return f"{self.job}-{self.kind.lower()}-{self.index}"

    @property
    def labels(self) -> dict[str, str]:
        """Those by which pod and service are found."""
        replica = {f"{_PREFIX}replica-type": self.kind.lower(), f"{_PREFIX}replica-index": str(self.index)}
        return job_labels(self.job) | replica


def job_labels(job: str) -> dict[str, str]:
    """Return the labels of all objects that are made for a job."""
    return {f"{_PREFIX}operator-name": "tfjob-controller", f"{_PREFIX}job-name": job}


def host(load: Load, one: Replica) -> str:
    """By which name a replica finds another, with its port."""
    within = f"{one.job}." if load.per_job else ""
    return f"{one.name}.{within}{NAMESPACE}.svc:{PORT}"


def job_names(load: Load) -> list[str]:
    """The names of the load's jobs."""
    return [f"bench-{number:04}" for number in range(load.jobs)]


def replicas(load: Load, job: str) -> list[Replica]:
    """All replicas of one job."""
    counts = {"PS": load.ps, "Worker": load.workers}
    return [Replica(job, kind, index) for kind, count in counts.items() for index in range(count)]


def pod_template(load: Load, kind: str) -> Json:
    """The pod template of a replica type."""
    template: Json = {
        "spec": {
            "nodeName": NODE,
            "containers": [
                {
                    "name": "tensorflow",
                    "image": IMAGE,
                    "command": ["python", "/app/train.py"],
                    "args": ["--batch-size=64", "--learning-rate=0.01"],
                    "env": [{"name": "TF_CPP_MIN_LOG_LEVEL", "value": "1"}],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    "ports": [{"name": "tfjob-port", "containerPort": PORT, "protocol": "TCP"}],
                }
            ],
        }
    }
    if load.reports_seconds:
        # In a cluster an admission plugin sets it.
        template["spec"]["serviceAccountName"] = "default"
    if load.finishes and kind == "Worker":
        template["metadata"] = {"labels": {FINISH_LABEL: "yes"}}
    return template


def job_manifest(load: Load, name: str) -> Json:
    """The TFJob as a user would submit it. Under churn its pods are restarted after exit codes of 128 and more."""
    specs = {
        kind: {
            "replicas": count,
            "restartPolicy": "ExitCode" if load.churn_rounds else "Never",
            "template": pod_template(load, kind),
        }
        for kind, count in (("PS", load.ps), ("Worker", load.workers))
        if count
    }
    spec: Json = {"runPolicy": {"cleanPodPolicy": "Running"}, "tfReplicaSpecs": specs}
    if load.finishes:
        # Else the job ends with worker 0, and milliseconds decide whether the other worker is then still running.
        spec["successPolicy"] = "AllWorkers"
    if load.reports_seconds:
        spec["progress"] = {}
    if load.dynamic:
        spec["enableDynamicWorker"] = True
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}
