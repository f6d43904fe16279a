"""Whether a run did what it was asked to: every object there, once, and as it must be.

A fast operator that forgot a pod is not fast. So a run's figures count only if `verify` finds nothing to complain
about. Pure: lists of objects in, complaints out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from hack.bench.loads import PORT, Load, Replica, host, job_labels, job_names, replicas
from hack.pod_environment import variables

Json = dict[str, Any]

MAX_COMPLAINTS = 20
_PLACE = ("job-name", "replica-type", "replica-index")


@dataclass(frozen=True)
class Found:
    """The objects at the API server at the end of a run. Pods and services are each listed once, one after the other.

    `pods_made` is how many pods of each name a watch has seen in the course of the run.
    """

    jobs: Iterable[Json]
    pods: Iterable[Json]
    services: Iterable[Json]
    pods_made: Mapping[str, int] = field(default_factory=dict)


def verify(load: Load, found: Found) -> list[str]:
    """Return complaints about missing, doubled or wrong objects, at most 20; empty if all is well."""
    uids: dict[str, str] = {}
    complaints: list[str] = []
    for job in found.jobs:
        uids[str(job["metadata"]["name"])] = str(job["metadata"]["uid"])
        complaints += _about_job(load, job)
    complaints = _missing_or_too_many("TFJob", job_names(load), uids) + complaints
    wanted = {replica.name: replica for job in job_names(load) for replica in _kept(load, job)}
    pods, services = _Seen("pod"), _Seen("service")
    for pod in found.pods:
        pods.see(pod, _about_replica(pod, wanted, uids, partial(_about_pod, load)))
    for service in found.services:
        if load.per_job:
            services.see(service, _about_job_service(service, uids))
        else:
            services.see(service, _about_replica(service, wanted, uids, _about_service))
    complaints += pods.complaints(wanted) + services.complaints(job_names(load) if load.per_job else wanted)
    if not load.churn_rounds:
        complaints += [
            f"pod {name}: was created {count} times" for name, count in found.pods_made.items() if count != 1
        ]
    return complaints[:MAX_COMPLAINTS]


class _Seen:
    """The objects of one kind that have been looked at: their names and places, and what was wrong with them."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._names: set[str] = set()
        self._places: Counter[tuple[str, ...]] = Counter()
        self._complaints: list[str] = []

    def see(self, obj: Json, about: Iterable[str]) -> None:
        name, labels = str(obj["metadata"]["name"]), obj["metadata"].get("labels") or {}
        self._names.add(name)
        self._places[tuple(labels.get(f"training.kubeflow.org/{key}", "") for key in _PLACE)] += 1
        if len(self._complaints) < MAX_COMPLAINTS:
            self._complaints += [f"{self._kind} {name}: {text}" for text in about]

    def complaints(self, wanted: Iterable[str]) -> list[str]:
        doubled = [
            f"{self._kind}s of {'-'.join(place)}: {count} of them" for place, count in self._places.items() if count > 1
        ]
        return [*_missing_or_too_many(self._kind, wanted, self._names), *doubled, *self._complaints]


def _about_replica(
    obj: Json, wanted: Mapping[str, Replica], uids: Mapping[str, str], check: Callable[[Json, Replica], list[str]]
) -> list[str]:
    """Return complaints about the pod or the service of a replica; surplus objects are not this function's subject."""
    replica = wanted.get(str(obj["metadata"]["name"]))
    if replica is None:
        return []
    about = _about_metadata(obj["metadata"], replica.labels, replica.job, uids.get(replica.job, ""))
    return about + check(obj, replica)


def _about_job_service(service: Json, uids: Mapping[str, str]) -> list[str]:
    name = str(service["metadata"]["name"])
    if name not in uids:
        return []
    return _about_metadata(service["metadata"], job_labels(name), name, uids[name]) + _about_headless(
        service, job_labels(name)
    )


def _kept(load: Load, job: str) -> list[Replica]:
    """The replicas whose objects are there at the end: after a success, those that finished by themselves."""
    return [replica for replica in replicas(load, job) if not load.finishes or replica.kind == "Worker"]


def _missing_or_too_many(kind: str, wanted: Iterable[str], existing: Iterable[str]) -> list[str]:
    names, wanted = set(existing), set(wanted)
    return [f"{kind} {name}: missing" for name in sorted(wanted - names)] + [
        f"{kind} {name}: should not be there" for name in sorted(names - wanted)
    ]


def _about_metadata(metadata: Json, wanted: Mapping[str, str], job: str, uid: str) -> list[str]:
    complaints = []
    labels = metadata.get("labels") or {}
    for key, value in wanted.items():
        if labels.get(key) != value:
            complaints.append(f"label {key} is {labels.get(key)!r}, not {value!r}")
    owners = metadata.get("ownerReferences") or []
    if len(owners) != 1:
        return [*complaints, f"has {len(owners)} owners"]
    owner = owners[0]
    expected = {"kind": "TFJob", "name": job, "uid": uid, "controller": True, "blockOwnerDeletion": True}
    wrong = {key: owner.get(key) for key, value in expected.items() if owner.get(key) != value}
    if wrong:
        complaints.append(f"its owner reference is wrong: {wrong}")
    if metadata.get("deletionTimestamp"):
        complaints.append("is being deleted")
    return complaints


def _about_pod(load: Load, pod: Json, replica: Replica) -> list[str]:
    complaints = []
    phase = pod.get("status", {}).get("phase")
    expected = "Succeeded" if load.finishes else "Running"
    if phase != expected:
        complaints.append(f"is {phase}, not {expected}")
    names = (pod["spec"].get("hostname"), pod["spec"].get("subdomain"))
    if names != ((replica.name, replica.job) if load.per_job else (None, None)):
        complaints.append(f"its host name is {names}")
    container: Json = next(
        (candidate for candidate in pod["spec"]["containers"] if candidate["name"] == "tensorflow"), {}
    )
    count = sum(variable["name"] == "TF_CONFIG" for variable in container.get("env") or ())
    if alone(load):
        return [*complaints, "has a TF_CONFIG, though it is alone"] if count else complaints
    if count != 1:
        return [*complaints, f"has {count} TF_CONFIG"]
    try:
        config = json.loads(variables(container).get("TF_CONFIG", ""))
    except ValueError:
        return [*complaints, "its TF_CONFIG is no JSON"]
    if config.get("task") != {"type": replica.kind.lower(), "index": replica.index}:
        complaints.append(f"its TF_CONFIG says it is {config.get('task')}")
    cluster_spec = config.get("cluster")
    if load.dynamic and isinstance(cluster_spec, dict):
        cluster_spec = {
            **cluster_spec,
            "ps": cluster_spec.get("ps") or [],
        }  # the Go operator writes null for an empty list
    if cluster_spec != cluster(load, replica):
        complaints.append("its TF_CONFIG names another cluster")
    return complaints


def alone(load: Load) -> bool:
    """Whether a job has only one replica, without dynamic workers: then it gets no TF_CONFIG."""
    return load.ps + load.workers == 1 and not load.dynamic


def cluster(load: Load, replica: Replica) -> Json:
    """Return the `cluster` that a replica's TF_CONFIG must have."""
    if load.dynamic and replica.kind == "PS":
        return {"worker": {}, "ps": [host(load, replica)]}
    if load.dynamic:
        servers = [host(load, other) for other in replicas(load, replica.job) if other.kind == "PS"]
        return {"worker": {str(replica.index): host(load, replica)}, "ps": servers}
    return _whole_cluster(load, replica.job)


@lru_cache(64)
def _whole_cluster(load: Load, job: str) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = {}
    for replica in replicas(load, job):
        hosts.setdefault(replica.kind.lower(), []).append(host(load, replica))
    return hosts


def _about_service(service: Json, replica: Replica) -> list[str]:
    return _about_headless(service, replica.labels)


def _about_headless(service: Json, labels: Mapping[str, str]) -> list[str]:
    complaints = []
    spec = service.get("spec", {})
    if spec.get("clusterIP") != "None":
        complaints.append("is not headless")
    selector = spec.get("selector") or {}
    if any(selector.get(key) != value for key, value in labels.items()):
        complaints.append(f"selects {selector}")
    if [port.get("port") for port in spec.get("ports") or ()] != [PORT]:
        complaints.append("does not offer the one port")
    return complaints


def _about_job(load: Load, job: Json) -> list[str]:
    name, status = job["metadata"]["name"], job.get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    expected = {"Succeeded": "True"} if load.finishes else {"Running": "True"}
    complaints = [
        f"TFJob {name}: condition {kind} is {conditions.get(kind)}, not {value}"
        for kind, value in expected.items()
        if conditions.get(kind) != value
    ]
    # On a busy machine a job may have ended before anybody saw it run: then it has no condition Running.
    if load.finishes and conditions.get("Running", "False") != "False":
        complaints.append(f"TFJob {name}: condition Running is {conditions['Running']}, not False")
    if conditions.get("Failed") == "True":
        complaints.append(f"TFJob {name}: has failed")
    if load.finishes and not status.get("completionTime"):
        complaints.append(f"TFJob {name}: has no completionTime")
    counted = status.get("replicaStatuses") or {}
    state = "succeeded" if load.finishes else "active"
    for kind, count in (("PS", 0 if load.finishes else load.ps), ("Worker", load.workers)):
        if count and (counted.get(kind) or {}).get(state) != count:
            complaints.append(f"TFJob {name}: {kind} is {counted.get(kind)}, not {count} {state}")
    return complaints
