"""`python -m hack.bench.requests`: what one request, and one event of a watch, costs the API server in CPU.

Each kind of request that an operator makes is measured with each form of answer that it could ask for, and events of a
watch in each form that they could come in. Rounds are interleaved, and the median is shown: the machine that got
busy did so for all. Linux only.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import msgspec

from hack.bench.environment import Environment
from hack.bench.floor import PARALLELISM, pod_manifest, service_manifest, status_manifest
from hack.bench.loads import NAMESPACE, Load, job_manifest, job_names, replicas
from hack.bench.measure import AUDIT_POLICY, CONTESTANT_USER, read_usage, wait_quiet
from hack.bench.paths import pods_path, services_path, tfjobs_path
from hack.controlplane import control_plane
from tfoperator.api.schema.crd import crd

_FORMS = {
    "JSON": "application/json",
    "metadata": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "protobuf": "application/vnd.kubernetes.protobuf",
}
_MERGE = "application/merge-patch+json"
_UID = "0b1d2c3e-0000-4000-8000-000000000000"
_WATCHES = 8
_AT_REST = 0.15  # of a core
_PODS_PATH, _SERVICES_PATH, _TFJOBS_PATH = (path(NAMESPACE) for path in (pods_path, services_path, tfjobs_path))
_EVENTS_PATH = f"/api/v1/namespaces/{NAMESPACE}/events"

Measured = dict[str, list[float]]
"""Milliseconds of CPU of each round, by what was measured."""


def measure(rounds: int, jobs: int) -> Measured:
    """Every kind and form, so many rounds, with `jobs` TFJobs of three replicas. Raises ControlPlaneError, OSError."""
    measured: Measured = {}
    with control_plane(users={CONTESTANT_USER: "system:authenticated"}, audit_policy=AUDIT_POLICY) as plane:
        environment = Environment(plane)
        environment.prepare()
        environment.install_crd(crd())
        wait_quiet((plane.pids["kube-apiserver"],), 60.0, _AT_REST)
        with ThreadPoolExecutor(PARALLELISM) as pool:
            costs = _Costs(environment, pool, Load("requests", jobs=jobs), measured)
            for number in range(rounds):
                costs.round(number)
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
        environment.close()
    return measured


class _Costs:
    def __init__(self, environment: Environment, pool: ThreadPoolExecutor, load: Load, measured: Measured) -> None:
        self._environment = environment
        self._pool = pool
        self._load = load
        self._found = measured

    def round(self, number: int) -> None:
        """Create, change and watch everything once in each form, and delete it all."""
        forms = list(_FORMS) if number % 2 else list(reversed(_FORMS))
        jobs = job_names(self._load)
        job_replicas = [replica for name in jobs for replica in replicas(self._load, name)]
        encode = msgspec.json.encode
        for form in forms:
            pods = [encode(pod_manifest(self._load, replica, _UID)) for replica in job_replicas]
            services = [encode(service_manifest(replica, _UID)) for replica in job_replicas]
            events = [encode(_event(name)) for name in jobs]
            self._timed("create pods", form, [("POST", _PODS_PATH, pod) for pod in pods])
            self._timed("create services", form, [("POST", _SERVICES_PATH, service) for service in services])
            self._timed("create events", form, [("POST", _EVENTS_PATH, event) for event in events])
            if form != forms[-1]:
                self._delete_all(_PODS_PATH, _SERVICES_PATH, _EVENTS_PATH)
        self._watches(number, forms, [replica.name for replica in job_replicas])
        for form in (form for form in forms if form != "protobuf"):  # which custom resources don't have
            made = [encode(job_manifest(self._load, name)) for name in jobs]
            self._timed("create tfjobs", form, [("POST", _TFJOBS_PATH, job) for job in made])
            status = encode({"status": status_manifest(self._load)})
            self._timed(
                "patch tfjobs/status", form, [("PATCH", f"{_TFJOBS_PATH}/{name}/status", status) for name in jobs]
            )
            self._delete_all(_TFJOBS_PATH)
        self._delete_all(_PODS_PATH, _SERVICES_PATH, _EVENTS_PATH)

    def _watches(self, number: int, forms: Sequence[str], pods: Sequence[str]) -> None:
        def change(label: str) -> float:
            body = msgspec.json.encode({"metadata": {"labels": {"round": f"{number}-{label}"}}})
            return self._cost([("PATCH", f"{_PODS_PATH}/{name}", body) for name in pods], "metadata")

        alone = change("alone")
        self._found.setdefault("patch pods, nobody watches (metadata)", []).append(alone)
        for form in forms:
            with self._watched(form):
                cost = change(form)
            self._found.setdefault(f"one event of a pod to one watch ({form})", []).append((cost - alone) / _WATCHES)

    @contextmanager
    def _watched(self, form: str) -> Iterator[None]:
        """So many equal watches, which share the events that the server has encoded in this form."""
        accept = f"{_FORMS[form]};stream=watch" if form == "protobuf" else _FORMS[form]
        with ExitStack() as stack:
            for _ in range(_WATCHES):
                answer = stack.enter_context(
                    self._environment.contestant.stream(f"{_PODS_PATH}?watch=1&timeoutSeconds=300", accept)
                )
                threading.Thread(target=_drain, args=(answer.read1,), daemon=True).start()
            yield

    def _timed(self, operation: str, form: str, requests: Sequence[tuple[str, str, bytes]]) -> None:
        self._found.setdefault(f"{operation} ({form})", []).append(self._cost(requests, form))

    def _cost(self, requests: Sequence[tuple[str, str, bytes]], form: str) -> float:
        def ask(request: tuple[str, str, bytes]) -> None:
            method, path, body = request
            content_type = _MERGE if method == "PATCH" else "application/json"
            self._environment.contestant.request(method, path, body, content_type, _FORMS[form])

        pid = self._environment.plane.pids["kube-apiserver"]
        before = read_usage(pid).cpu
        list(self._pool.map(ask, requests))
        return (read_usage(pid).cpu - before) / len(requests) * 1000

    def _delete_all(self, *paths: str) -> None:
        for path in paths:
            self._environment.client.request("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")
            while self._environment.list(path):
                time.sleep(0.1)


def _drain(read: Callable[[int], bytes]) -> None:
    try:
        while read(1 << 16):
            pass
    except (OSError, ValueError, AttributeError):
        return  # the measurement is over, and has closed it


def _event(job: str) -> dict[str, object]:
    return {
        "metadata": {"name": f"{job}.1", "namespace": "bench"},
        "involvedObject": {"kind": "TFJob", "apiVersion": "kubeflow.org/v1", "name": job, "namespace": "bench"},
        "reason": "SuccessfulCreatePod",
        "message": f"Created 3 pods: {job}-ps-0, {job}-worker-0, {job}-worker-1 and 3 services",
        "type": "Normal",
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.requests", description="CPU of kube-apiserver.")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--jobs", type=int, default=300, metavar="N", help="with three pods and services each")
    options = parser.parse_args(argv)
    print("| | CPU of the API server, ms | rounds |\n|---|---|---|")
    for operation, costs in sorted(measure(options.rounds, options.jobs).items()):
        print(f"| {operation} | {statistics.median(costs):.2f} | {' '.join(f'{cost:.2f}' for cost in costs)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
