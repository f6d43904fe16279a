"""The real gang schedulers on a real API server: their CRDs, their programs, and nodes that exist on paper only.

There is no kubelet: a pod is on a node when a scheduler has bound it, and the test decides when it runs.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from hack import gobuild
from hack.controlplane import ControlPlane
from hack.processes import end_process, spawn, tail
from tests.support.cluster import Cluster, decode
from tests.support.eventually import eventually
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import NotFoundError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient

NODES = Resource("", "v1", "Node", "nodes", namespaced=False)

_QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "Queue", "queues", namespaced=False)

COSCHEDULING = "coscheduler"
"""The name of the scheduler with the coscheduling plugin here."""

_VOLCANO_CRDS = (
    "scheduling.volcano.sh_podgroups",
    "scheduling.volcano.sh_queues",
    "nodeinfo.volcano.sh_numatopologies",
    "topology.volcano.sh_hypernodes",
)


def install_volcano_crds(client: ApiClient) -> None:
    for name in _VOLCANO_CRDS:
        _install(client, gobuild.module_folder("gang", "volcano.sh/volcano") / f"config/crd/volcano/bases/{name}.yaml")


def install_coscheduling_crds(client: ApiClient) -> None:
    plugins = gobuild.module_folder("gang", "sigs.k8s.io/scheduler-plugins")
    _install(client, plugins / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml")


@contextmanager
def paper_node(client: ApiClient, name: str, *, cpu: str) -> Iterator[None]:
    """A node that is Ready and has no kubelet."""
    room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "on paper"}
    client.create(NODES, "", {"metadata": {"name": name}}, decode)
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    client.patch(NODES, "", name, {"status": status}, decode, subresource="status")
    # The API server taints what has just joined; the node lifecycle controller, which is not there, would untaint it.
    client.patch(NODES, "", name, {"spec": {"taints": None}}, decode)
    yield
    client.delete(NODES, "", name)


@contextmanager
def volcano_scheduler(plane: ControlPlane) -> Iterator[Path]:
    """Volcano's scheduler; yields its log."""
    flags = (
        f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--schedule-period=200ms", "--cache-dumper=false",
        "--listen-address=127.0.0.1:0", "--v=3", "--logtostderr=true",
    )  # fmt: skip
    client = Client(load_config(str(plane.kubeconfig)))
    try:
        with _running("vc-scheduler", flags) as log:
            # The scheduler makes the queues, and uses those that Volcano's controller, which is not there, calls open.
            for queue in ("root", "default"):
                eventually(lambda name=queue: _open(client, name), within=60, what=f"queue {queue} is there")
            yield log
    finally:
        client.close()


def _open(client: ApiClient, queue: str) -> bool:
    try:
        client.patch(_QUEUES, "", queue, {"status": {"state": "Open"}}, decode, subresource="status")
    except NotFoundError:
        return False
    return True


@contextmanager
def coscheduling_scheduler(plane: ControlPlane) -> Iterator[Path]:
    """kube-scheduler with the coscheduling plugin, named `COSCHEDULING`; yields its log."""
    plugins = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "PrioritySort"}]}
    arguments = [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 5}}]
    # A pod whose PodGroup has changed is looked at before the plugin's own cache has the change; left to itself, it
    # would wait for the next five minutes.
    again = "--pod-max-in-unschedulable-pods-duration=2s"
    program, more = "kube-scheduler-coscheduling", {"plugins": {"multiPoint": plugins}, "pluginConfig": arguments}
    with _kube_scheduler(plane, program, COSCHEDULING, again, **more) as log:
        yield log


@contextmanager
def kubernetes_scheduler(plane: ControlPlane, name: str = "default-scheduler") -> Iterator[Path]:
    """Kubernetes' own scheduler by this name, with the feature gates of the control plane; yields its log."""
    with _kube_scheduler(plane, "kube-scheduler", name, f"--feature-gates={plane.feature_gates}") as log:
        yield log


@contextmanager
def _kube_scheduler(plane: ControlPlane, program: str, name: str, flag: str, **profile: Any) -> Iterator[Path]:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 200, "burst": 400},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": name, **profile}],
    }
    with tempfile.TemporaryDirectory(prefix="tfoperator-scheduler-") as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(json.dumps(config))
        with _running(program, (f"--config={path}", "--secure-port=0", "--v=3", flag)) as log:
            yield log


@contextmanager
def _running(program: str, flags: Sequence[str]) -> Iterator[Path]:
    path = gobuild.find(program)
    with tempfile.TemporaryDirectory(prefix="tfoperator-scheduler-") as folder:
        log = Path(folder) / f"{program}.log"
        process = spawn([path, *flags], log)
        try:
            yield log
            assert process.poll() is None, f"{program} ended"
        finally:
            end_process(process.pid, lambda: process.poll() is not None)
            print(f"--- {program}\n{tail(log, 30)}")


def _install(client: ApiClient, path: Path) -> None:
    Cluster(client).install_crd(yaml.safe_load(path.read_text()))
