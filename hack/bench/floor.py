"""The floor: what the load costs this machine without any controller.

A script makes the same TFJobs and the same services and pods, and writes each job's status once. A program that must
create these objects can hardly be faster than this on the same API server; the question is how near an operator comes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import msgspec

from hack.bench.environment import Environment
from hack.bench.loads import (
    NAMESPACE,
    PORT,
    Load,
    Replica,
    host,
    job_labels,
    job_manifest,
    job_names,
    pod_template,
    replicas,
)
from hack.bench.paths import pods_path, services_path, tfjobs_path
from hack.bench.verify import alone, cluster
from hack.bench.watcher import Observations, Watcher

Json = dict[str, Any]

PARALLELISM = 40
"""Requests in flight: with 32 to 48 the API server of a small machine is at its best."""

_LONG = 4096
"""Characters of the longest list of hosts that is not abbreviated in TF_CONFIG."""

_encode = msgspec.json.Encoder().encode


def submit(environment: Environment, load: Load) -> None:
    """Create the load's TFJobs as a user would, all as soon as the API server takes them. Raises RequestFailed."""
    bodies = [(tfjobs_path(NAMESPACE), _encode(job_manifest(load, name))) for name in job_names(load)]
    with ThreadPoolExecutor(PARALLELISM, thread_name_prefix="submit") as pool:
        _results([pool.submit(environment.client.request, "POST", path, body) for path, body in bodies])


def play_floor(environment: Environment, load: Load, watcher: Watcher, timeout: float) -> None:
    """Do everything that a controller would have to do for the load, and return when it is done."""
    names = job_names(load)
    # Few large jobs: each job's objects are made in parallel. Many small jobs: the jobs are made in parallel.
    few = len(names) < PARALLELISM
    makers = ThreadPoolExecutor(len(names) if few else 1, thread_name_prefix="floor jobs")
    with makers, ThreadPoolExecutor(PARALLELISM, thread_name_prefix="floor") as pool:

        def all_of(calls: list[Callable[[], object]]) -> None:
            if few:
                _results([pool.submit(call) for call in calls])
            else:
                for call in calls:
                    call()

        def make(name: str) -> str:
            answer = environment.client.request("POST", tfjobs_path(NAMESPACE), _encode(job_manifest(load, name)))
            uid = str(msgspec.json.decode(answer, type=dict[str, Any])["metadata"]["uid"])
            job_replicas = replicas(load, name)
            if load.per_job:
                services = [job_service_manifest(name, uid)]
            else:
                services = [service_manifest(replica, uid) for replica in job_replicas]
            pods = [_encode(pod_manifest(load, replica, uid)) for replica in job_replicas]
            all_of([_post(environment, services_path(NAMESPACE), _encode(service)) for service in services])
            all_of([_post(environment, pods_path(NAMESPACE), pod) for pod in pods])
            if not load.finishes:
                _write_status(environment, name, status_manifest(load))
            return uid

        # A task that waits for the pool must not be in the pool.
        _results([(makers if few else pool).submit(make, name) for name in names])
        if load.finishes:
            _finish(environment, load, watcher, pool, timeout)


def _finish(environment: Environment, load: Load, watcher: Watcher, pool: ThreadPoolExecutor, timeout: float) -> None:
    def end(name: str) -> None:
        for replica in replicas(load, name):
            if replica.kind == "PS":
                environment.contestant.request("DELETE", f"{pods_path(NAMESPACE)}/{replica.name}")
                if not load.per_job:
                    environment.contestant.request("DELETE", f"{services_path(NAMESPACE)}/{replica.name}")
        _write_status(environment, name, status_manifest(load))

    waiting = {
        name: {replica.name for replica in replicas(load, name) if replica.kind == "Worker"} for name in job_names(load)
    }
    futures: list[Future[None]] = []
    until = time.monotonic() + timeout
    while waiting and time.monotonic() < until:
        with watcher.lock:
            done = [name for name, workers in waiting.items() if _succeeded(watcher.seen, workers)]
        futures += [pool.submit(end, name) for name in done]
        for name in done:
            del waiting[name]
        time.sleep(0.02)
    _results(futures)


def _succeeded(observed: Observations, workers: set[str]) -> bool:
    return all(observed.phases.get(worker) == "Succeeded" for worker in workers)


def _post(environment: Environment, path: str, body: bytes) -> Callable[[], object]:
    return lambda: environment.contestant.request("POST", path, body)


def _write_status(environment: Environment, name: str, status: Json) -> None:
    path, body = f"{tfjobs_path(NAMESPACE)}/{name}/status", _encode({"status": status})
    environment.contestant.request("PATCH", path, body, "application/merge-patch+json")


def _results(futures: list[Future[Any]]) -> None:
    for future in futures:
        future.result()


def _metadata(name: str, labels: dict[str, str], job: str, uid: str) -> Json:
    owner = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": job,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}


def service_manifest(one: Replica, uid: str) -> Json:
    """The service of a replica, as a controller would make it."""
    ports = [{"name": "tfjob-port", "port": PORT}]
    spec = {"clusterIP": "None", "selector": one.labels, "ports": ports}
    metadata = _metadata(one.name, one.labels, one.job, uid)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def job_service_manifest(job: str, uid: str) -> Json:
    """The one service of a job, as a controller would make it."""
    labels = job_labels(job)
    ports = [{"name": "tfjob-port", "port": PORT, "targetPort": "tfjob-port"}]
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": ports}
    metadata = _metadata(job, labels, job, uid)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def pod_manifest(load: Load, one: Replica, uid: str) -> Json:
    """The pod of a replica, as a controller would make it."""
    template = pod_template(load, one.kind)
    metadata = _metadata(one.name, one.labels, one.job, uid)
    metadata["labels"] |= template.get("metadata", {}).get("labels", {})
    if not alone(load):
        template["spec"]["containers"][0]["env"] += _tf_config(load, one)
    spec = {**template["spec"], "restartPolicy": "Never"}
    if load.per_job:
        spec |= {"hostname": one.name, "subdomain": one.job}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _tf_config(load: Load, replica: Replica) -> list[Json]:
    task = {"type": replica.kind.lower(), "index": replica.index}
    cluster_spec = cluster(load, replica)
    value = json.dumps({"cluster": cluster_spec, "task": task, "environment": "cloud"})
    env: list[Json] = []
    for kind in ("PS", "Worker") if load.per_job and not load.dynamic else ():
        if len('","'.join(cluster_spec.get(kind.lower(), ()))) > _LONG:
            # The text between the numbers of two replicas is a variable, as our operator writes it.
            between = f'{_around(load, replica, kind, 0)[1]}", "{_around(load, replica, kind, 1)[0]}'
            name = "_" * (len(env) + 1)
            env.append({"name": name, "value": between})
            value = value.replace(between, f"$({name})")
    return [*env, {"name": "TF_CONFIG", "value": value}]


def _around(load: Load, replica: Replica, kind: str, index: int) -> tuple[str, str]:
    """Return the parts of a replica's host name before and after its number."""
    name = Replica(replica.job, kind, index)
    before, number, after = host(load, name).partition(f"-{kind.lower()}-{index}")
    return before + number.removesuffix(str(index)), after


def status_manifest(load: Load) -> Json:
    """The status of a job whose replicas all run."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    condition = {"status": "True", "lastUpdateTime": now, "lastTransitionTime": now, "message": "by the floor"}
    conditions = [{**condition, "type": kind, "reason": f"TFJob{kind}"} for kind in ("Created", "Running")]
    if not load.finishes:
        counts = {kind: {"active": count} for kind, count in (("PS", load.ps), ("Worker", load.workers)) if count}
        return {"conditions": conditions, "replicaStatuses": counts, "startTime": now}
    conditions[1]["status"] = "False"
    return {
        "conditions": [*conditions, {**condition, "type": "Succeeded", "reason": "TFJobSucceeded"}],
        "replicaStatuses": {"Worker": {"succeeded": load.workers}},
        "startTime": now,
        "completionTime": now,
    }
