"""A chief of ParameterServerStrategy saves when all replicas get SIGTERM at once: those that serve it wait."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import manifests
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
from tests.support.kubectl import Kubectl
from tests.support.local_cluster import ROOT, cluster
from tfoperator.local.controlplane import ControlPlane

__all__ = ["cluster"]

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]  # the sum of what it waits for at most

PROGRAM = textwrap.dedent(
    """
    import itertools, os, sys
    from tfoperator.progress import Saving, serve_chief
    os.environ |= {"GRPC_FAIL_FAST": "use_caller", "CUDA_VISIBLE_DEVICES": ""}
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        serve_chief()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        steps = tf.Variable(0, dtype=tf.int64)
    here = tf.train.CheckpointOptions(experimental_io_device="/job:chief/replica:0/task:0/device:CPU:0")
    kept = tf.train.CheckpointManager(tf.train.Checkpoint(steps=steps), sys.argv[1] + "/kept", max_to_keep=2)
    if kept.latest_checkpoint:
        kept.checkpoint.restore(kept.latest_checkpoint, options=here)
    train = tf.function(lambda: steps.assign_add(1))
    first = int(steps)
    with Saving(lambda step: kept.save(step, options=here)) as saving, open(sys.argv[1] + "/notes", "a", 1) as notes:
        print("start", first, file=notes)
        for step in itertools.count(first + 1):
            coordinator.schedule(train)
            coordinator.join()
            print("step", step, file=notes)
            saving.after_step(step)
    """
)


def test_a_suspended_chief_saves_the_step_and_goes_on_after_it(cluster: ControlPlane, tmp_path: Path) -> None:
    kubectl = Kubectl(write_kubeconfig(tmp_path / "kubeconfig", cluster.endpoint.kubeconfig(), "default"), "default")
    trains = {
        "name": "tensorflow",
        "image": "x",
        "command": [sys.executable, "-c", PROGRAM, str(tmp_path)],
        "env": [{"name": "PYTHONPATH", "value": str(ROOT)}],
    }
    replica = {"replicas": 1, "restartPolicy": "ExitCode", "template": {"spec": {"containers": [trains]}}}

    def notes(word: str) -> list[int]:
        lines = (tmp_path / "notes").read_text().splitlines() if (tmp_path / "notes").exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(word)]

    def suspend(on: bool) -> None:
        kubectl("patch", "tfjob", "saves", "--type=merge", "-p", json.dumps({"spec": {"runPolicy": {"suspend": on}}}))

    kubectl(
        "create", "-f", "-", stdin=json.dumps(manifests.job("saves", dict.fromkeys(("Chief", "Worker", "PS"), replica)))
    )
    eventually(lambda: len(notes("step")) > 20, within=240, what="it trains")
    suspend(True)
    kubectl("wait", "--for=delete", "pod", "--all", "--timeout=60s")
    done = notes("step")[-1]
    suspend(False)
    eventually(lambda: len(notes("start")) == 2, within=240, what="it goes on")
    assert notes("start") == [0, done]
