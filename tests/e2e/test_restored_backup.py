"""etcd is restored from a backup below a running operator, which is not started anew."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane, control_plane
from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import NAMESPACES
from tfoperator.kube.views.objects import decode_nothing

pytestmark = pytest.mark.controlplane


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """One of its own: nobody else's objects go back in time."""
    with control_plane() as running:
        yield running


def back_up(plane: ControlPlane, folder: Path) -> None:
    """Copy what etcd has on its disk at one moment, from which it could be started after a crash, too."""
    os.kill(plane.pids["etcd"], signal.SIGSTOP)
    try:
        shutil.copytree(plane.folder / "etcd", folder)
    finally:
        os.kill(plane.pids["etcd"], signal.SIGCONT)


def restore(plane: ControlPlane, folder: Path) -> None:
    """Start everything anew from a backup."""
    plane.kill()
    shutil.rmtree(plane.folder / "etcd")
    shutil.copytree(folder, plane.folder / "etcd")
    plane.start_etcd()
    plane.start_api_server()
    plane.start_controller_manager()


def test_what_happens_after_a_restored_backup_is_acted_on(plane: ControlPlane, tmp_path: Path) -> None:
    with Client(load_config(str(plane.kubeconfig))) as client:
        cluster = Cluster(client)
        cluster.install_crd(crd())
        cluster.create_namespace()
        flags = ("--resync-period=2s", "--reconcile-max-period=4s", "--restart-delay-base=100ms")
        with OperatorProcess(plane.kubeconfig, tmp_path, "operator", *flags) as operator:
            operator.wait_ready()
            cluster.submit(tfjob("kept", restart_policy="OnFailure", Worker=2))
            cluster.run_pods(2)
            cluster.wait_condition("kept", "Ready")
            back_up(plane, tmp_path / "backup")
            cluster.submit(tfjob("lost", Worker=1))
            cluster.wait_pods(3)
            for number in range(300):
                note = {"metadata": {"annotations": {"note": str(number)}}}
                client.patch(NAMESPACES, "", cluster.namespace, note, decode_nothing)
            for name in cluster.run_pods(3):
                cluster.set_phase(name, "Running", ready=False)
            eventually(lambda: not cluster.has_condition("kept", "Ready"), what="the newest is seen")
            restore(plane, tmp_path / "backup")
            [failed, _] = [cluster.pods()[f"kept-worker-{index}"]["metadata"]["uid"] for index in range(2)]
            cluster.set_phase("kept-worker-0", "Failed", exit_code=1)

            def is_made_again() -> bool:
                pod = cluster.pods().get("kept-worker-0")
                return pod is not None and pod["metadata"]["uid"] != failed

            eventually(is_made_again, what="worker 0 is started again")
            suspended = {"spec": {"runPolicy": {"suspend": True}}}
            client.patch(TFJOBS, cluster.namespace, "kept", suspended, decode_nothing)
            cluster.wait_condition("kept", "Suspended")
            eventually(lambda: not cluster.pods(), what="all pods are deleted")
            assert operator.stop() == 0
