"""How much memory an operator takes beside the largest objects of a kind that it watches, on a real API server.

    python -m hack.bench.large_objects podgroups --objects 1000 --code .
    python -m hack.bench.large_objects workloads --code before=/a/folder/with/other/code --code after=.

For each kind a control plane of its own starts. Operators run beside it, one for each `--code`, while the objects are
created; then they are started again, and read them. Printed is the resident memory of each process in MiB, at its peak
and afterwards. The objects here belong to no job that runs, so the operators do nothing but watch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from hack import gobuild
from hack.bench.large_jobs import large_job, page
from hack.controlplane import ControlPlane
from hack.processes import comes_true, end_process, free_port, spawn
from tfoperator.api.kueue.queues import JOB_UID_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.replicas.names import job_labels
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller.kueue.objects import FLAVORS
from tfoperator.controller.pods.gang import COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    Resource,
)
from tfoperator.kube.views.objects import decode_nothing

Json = dict[str, Any]

BYTES = 80_000
"""Bytes of labels, of annotations and of what else the author of an object chooses: 240 KB in all."""
CONTAINERS = 150
WAIT = 1200.0
"""Seconds until a cache has to be complete: 1.4 GB of TFJobs take minutes on two busy cores."""
_NAMESPACE = "default"
_LONG = ".".join(["l" * 50] * 3)
"""A long part of a name: API servers take long to serve an object of ten thousand short names."""


def _labels(size: int) -> Json:
    return {f"{_LONG}.example.com/k{number}": "v" * 63 for number in range(size // 240)}


def _annotations(size: int) -> Json:
    return {f"example.com/{number}": "v" * 400 for number in range(size // 420)}


def _metadata(name: str, size: int) -> Json:
    return {"name": name, "labels": _labels(size) | job_labels("none"), "annotations": _annotations(size)}


def _pod_group(name: str) -> Json:
    resources = {f"{_LONG}.example.com/r{number}": "1" for number in range(BYTES // 180)}
    return {"metadata": _metadata(name, BYTES), "spec": {"minMember": 1, "minResources": resources}}


def _workload(name: str) -> Json:
    containers = [{"name": "c", "image": "i", "env": [{"name": "V", "value": "x" * BYTES}]}]
    template = {"spec": {"containers": containers, "restartPolicy": "Never"}}
    metadata = _metadata(name, BYTES)
    metadata["labels"][JOB_UID_LABEL] = "0000"
    metadata["finalizers"] = [f"{_LONG}.example.com/f{number}" for number in range(BYTES // 180)]
    return {"metadata": metadata, "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]}}


def _flavor(name: str) -> Json:
    return {"metadata": _metadata(name, BYTES), "spec": {"nodeLabels": {"a": "b"}}}


def _priority(name: str) -> Json:
    return {"metadata": _metadata(name, BYTES), "value": 1, "description": "d" * BYTES}


def _service(name: str) -> Json:
    metadata = _metadata(name, BYTES)
    metadata["finalizers"] = [f"{_LONG}.example.com/f{number}" for number in range(BYTES // 180)]
    return {"metadata": metadata, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}


def _deployment(name: str) -> Json:
    containers = [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": _metadata(name, BYTES), "spec": spec}


def _pod(name: str) -> Json:
    containers = [{"name": f"{name}-{number}", "image": "i"} for number in range(CONTAINERS)]
    return {"metadata": _metadata(name, BYTES), "spec": {"containers": containers}}


def _pod_status(name: str) -> Json:
    waits = {"waiting": {"reason": "ContainerCreating"}}
    common = {"ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": waits}
    return {
        "status": {
            "phase": "Pending",
            "containerStatuses": [common | {"name": f"{name}-{number}"} for number in range(CONTAINERS)],
        }
    }


def _job(name: str) -> Json:
    job = large_job(name)
    job["spec"]["runPolicy"] = {"suspend": True}
    return job


@dataclass(frozen=True)
class Kind:
    """A kind that operators watch, and how its largest objects are made."""

    resource: Resource
    make: Callable[[str], Json]
    flags: tuple[str, ...] = ()
    status: Callable[[str], Json] | None = None


KINDS = {
    "tfjobs": Kind(TFJOBS, _job),
    "pods": Kind(PODS, _pod, status=_pod_status),
    "services": Kind(SERVICES, _service),
    "deployments": Kind(DEPLOYMENTS, _deployment),
    "podgroups": Kind(VOLCANO_POD_GROUPS, _pod_group, ("--gang-scheduler-name=volcano",)),
    "coscheduling": Kind(COSCHEDULING_POD_GROUPS, _pod_group, ("--gang-scheduler-name=scheduler-plugins",)),
    "priorityclasses": Kind(PRIORITY_CLASSES, _priority, ("--gang-scheduler-name=volcano",)),
    "workloads": Kind(WORKLOADS, _workload, ("--kueue",)),
    "resourceflavors": Kind(FLAVORS, _flavor, ("--kueue",)),
}


def _definitions() -> Iterator[Json]:
    """Yield the CRDs of all kinds, without the webhooks that they are converted by."""
    yield crd()
    volcano = gobuild.module_folder("gang", "volcano.sh/volcano") / "config/crd/volcano/bases"
    plugins = gobuild.module_folder("gang", "sigs.k8s.io/scheduler-plugins") / "config/crd/bases"
    kueue = gobuild.module_folder("kueue", "sigs.k8s.io/kueue") / "config/components/crd/bases"
    for path in (
        volcano / "scheduling.volcano.sh_podgroups.yaml",
        plugins / "scheduling.x-k8s.io_podgroups.yaml",
        kueue / "kueue.x-k8s.io_workloads.yaml",
        kueue / "kueue.x-k8s.io_resourceflavors.yaml",
    ):
        definition = yaml.safe_load(path.read_text())
        definition["spec"].pop("conversion", None)
        yield definition


class Operator:
    """An operator's process that runs the code of a folder, until the end of the block."""

    def __init__(self, plane: ControlPlane, code: Path, flags: Sequence[str], log: Path) -> None:
        self._metrics, self._health = free_port(), free_port()
        command = [
            sys.executable, "-m", "tfoperator.operator", f"--kubeconfig={plane.kubeconfig}", *flags,
            f"--metrics-bind-address=127.0.0.1:{self._metrics}",
            f"--health-probe-bind-address=127.0.0.1:{self._health}",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] = spawn(command, log, cwd=code, env=os.environ | {"PYTHONPATH": "."})

    def __enter__(self) -> Operator:
        _wait(lambda: page(self._health, "/readyz") is not None, "ready")
        return self

    def __exit__(self, *_: object) -> None:
        end_process(self._process.pid, lambda: self._process.poll() is not None)

    def has(self, plural: str, count: int) -> bool:
        """Whether its cache has so many objects of a kind. Raises RuntimeError if it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the operator has ended with {self._process.returncode}")
        return f'tfoperator_informer_objects{{informer="{plural}"}} {float(count)}' in (
            page(self._metrics, "/metrics") or ""
        )

    def memory(self) -> tuple[float, float]:
        """MiB of its resident set: at its peak, and now."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
        return peak, psutil.Process(self._process.pid).memory_info().rss / 2**20


def measure(kind: Kind, codes: dict[str, Path], count: int, folder: Path) -> None:
    """Print the memory of an operator of each code. Raises TimeoutError."""
    plane = ControlPlane(folder / "plane")
    plane.start()
    try:
        with Client(load_config(str(plane.kubeconfig))) as client:
            for definition in _definitions():
                client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, decode_nothing)
            _wait(lambda: _is_served(client, kind.resource), "the kind is served")
            with _operators(plane, kind, codes, folder, "watching") as watching:
                _create(client, kind, count)
                _report("watched", watching, kind, count)
            with _operators(plane, kind, codes, folder, "listing") as listing:
                _report("started anew", listing, kind, count)
    finally:
        plane.kill()


@contextmanager
def _operators(
    plane: ControlPlane, kind: Kind, codes: dict[str, Path], folder: Path, phase: str
) -> Iterator[dict[str, Operator]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Operator(plane, code, kind.flags, folder / f"{phase}-{name}.log"))
            for name, code in codes.items()
        }


def _create(client: Client, kind: Kind, count: int) -> None:
    namespace = _NAMESPACE if kind.resource.namespaced else ""

    def create(number: int) -> None:
        name = f"large-{number}"
        body = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, **kind.make(name)}
        client.create(kind.resource, namespace, body, decode_nothing)
        if kind.status is not None:
            client.patch(kind.resource, namespace, name, kind.status(name), decode_nothing, subresource="status")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(create, range(count)))


def _report(title: str, operators: dict[str, Operator], kind: Kind, count: int) -> None:
    more = 2 if kind.resource is PRIORITY_CLASSES else 0  # Kubernetes' own
    for name, operator in operators.items():
        _wait(lambda operator=operator: operator.has(kind.resource.plural, count + more), f"{name} has all {count}")  # type: ignore[misc]
        peak, now = operator.memory()
        print(f"{title}: {name}: {peak:.0f} MiB at the peak, {now:.0f} MiB now", flush=True)


def _is_served(client: Client, resource: Resource) -> bool:
    try:
        client.list(resource, "", decode_nothing)
    except KubeError:
        return False
    return True


def _wait(condition: Callable[[], bool], description: str) -> None:
    if not comes_true(condition, WAIT):
        raise TimeoutError(f"not in time: {description}")


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="+", choices=sorted(KINDS))
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--code", action="append", default=[], help="[NAME=]FOLDER of the operator's code")
    options = parser.parse_args()
    codes = {}
    for code in options.code or ["."]:
        name, _, folder = code.rpartition("=")
        codes[name or "operator"] = Path(folder).resolve()
    for kind in options.kinds:
        print(f"{options.objects} {kind}", flush=True)
        with tempfile.TemporaryDirectory() as work:
            measure(KINDS[kind], codes, options.objects, Path(work))


if __name__ == "__main__":
    main()
