"""The objects that a faultless run leaves on the API server, for tests to spoil."""

import json
from typing import Any

from hack.bench.floor import job_service_manifest, pod_manifest, service_manifest, status_manifest
from hack.bench.loads import Load, job_manifest, job_names, replicas
from hack.bench.run import Result
from hack.bench.verify import Found

Json = dict[str, Any]

STAYING = Load("medium", jobs=2)
FINISHING = Load("finish", jobs=2, finishes=True)
PER_JOB = Load("small", jobs=2, per_job=True)
MANY = Load("hundreds", jobs=2, workers=90, per_job=True)
DYNAMIC = Load("pods", jobs=2, ps=1, workers=3, dynamic=True)
ALONE = Load("ones", jobs=2, ps=0, workers=1)
CHURNING = Load("churn", jobs=2, churn_rounds=1)


def outcome(load: Load) -> Found:
    """A copy that may be changed."""
    jobs: list[Json] = []
    pods: list[Json] = []
    services: list[Json] = []
    for number, name in enumerate(job_names(load)):
        job = job_manifest(load, name)
        job["metadata"]["uid"] = uid = f"uid-{number}"
        jobs.append({**job, "status": status_manifest(load)})
        for replica in replicas(load, name):
            if load.finishes and replica.kind == "PS":
                continue
            phase = "Succeeded" if load.finishes else "Running"
            pods.append({**pod_manifest(load, replica, uid), "status": {"phase": phase}})
            if not load.per_job:
                services.append(service_manifest(replica, uid))
        if load.per_job:
            services.append(job_service_manifest(name, uid))
    pods_made = {replica.name: 1 for name in job_names(load) for replica in replicas(load, name)}
    jobs, pods, services = json.loads(json.dumps([jobs, pods, services]))
    return Found(jobs, pods, services, pods_made)


def result(contestant: str, load: str = "medium", repetition: int = 0, **figures: float) -> Result:
    return Result(load, f"{load} load", 500, contestant, repetition, figures=figures)
