"""The promises of docs/tfjob.md about `spec.network`, as the oracle reads them.

All objects of a job are of one network: the network that the job requests, else the network of its first object. A job
without objects, whose status does not show that it was started, begins anew: its earlier network can't be known. A
service of PerJob belongs to no replica; its `replica` is None in the histories.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from hack.faults.oracle.history import JobHistory, ReplicaKey, ServiceHistory
from hack.pod_environment import variables

Json = dict[str, Any]
Complain = Callable[[str, JobHistory, str], None]

PER_REPLICA, PER_JOB = "PerReplica", "PerJob"


def is_service_of_job(job: JobHistory, obj: Json) -> bool:
    """Whether a service that belongs to no replica stands for all of them, and not for their TensorBoard."""
    return obj["kind"] == "Service" and not str(obj["metadata"]["name"]).startswith(f"{job.name}-tensorboard")


def check_new_pod(job: JobHistory, pod: Json, complain: Complain) -> None:
    """Check a new pod of the job: its names, and the names in its environment, have to be of the job's network."""
    name, spec = str(pod["metadata"]["name"]), pod.get("spec") or {}
    subdomain = str(spec.get("subdomain") or "")
    _note(job, f"pod {name}", PER_JOB if subdomain else PER_REPLICA, complain)
    if subdomain and (subdomain not in _service_names(job) or spec.get("hostname") != name):
        complain("wrong", job, f"pod {name} is {spec.get('hostname')!r} in {subdomain!r}")
    for host in _hosts(spec):
        labels = host.partition(":")[0].split(".")
        if labels[1:-2] != ([subdomain] if subdomain else []) or labels[-1] != "svc":
            complain("wrong", job, f"pod {name} has the subdomain {subdomain!r}, and its environment names {host}")


def check_new_service(job: JobHistory, service: ServiceHistory, complain: Complain) -> None:
    """A service of the job was made."""
    _note(job, f"service {service.name}", PER_JOB if service.replica is None else PER_REPLICA, complain)
    if service.replica is None and service.name not in _service_names(job):
        complain("wrong", job, f"service {service.name} has nothing to do with the job")


def check_services(job: JobHistory, key: ReplicaKey, pods: int, *, needed: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the services of one replica, as (kind, text), at the end."""
    kind, index = key
    services = [service for service in job.services.values() if service.replica in (key, None) and not service.gone]
    if pods > 1 or len(services) > 1:
        yield "doubled", f"{kind}-{index} has {pods} pods and {len(services)} services"
    if needed and not services:
        yield "lost", f"{kind}-{index} has no service"


def check_record(job: JobHistory) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the status, at the end: when all objects are gone, a new leader has only the status."""
    recorded = job.status.get("network")
    if job.network and recorded != (PER_JOB if job.network == PER_JOB else None):
        yield "lost", f"its network is {job.network}, and the status records {recorded!r}"


def _note(job: JobHistory, name: str, network: str, complain: Complain) -> None:
    objects = sum(not pod.gone for pod in job.pods.values()) + sum(
        not service.gone for service in job.services.values()
    )
    if objects == 1 and not job.status.get("startTime"):  # the new object alone
        job.network = ""
    for verb, expected in (("asks for", job.spec.get("network")), ("was started with", job.network)):
        if expected and expected != network:
            complain("wrong", job, f"{name} is of network {network}, and the job {verb} {expected}")
    job.network = job.network or network


def _service_names(job: JobHistory) -> tuple[str, str]:
    return job.name, f"{job.name}-{job.uid[:8]}"


def _hosts(spec: Json) -> Iterator[str]:
    for container in spec.get("containers") or ():
        config = variables(container).get("TF_CONFIG")
        for hosts in json.loads(config)["cluster"].values() if config else ():
            yield from hosts.values() if isinstance(hosts, dict) else hosts
