"""Jobs whose pods come and go, on a real node: an elastic job that loses a machine, and a job with a data service."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hack.node import NODE_NAME
from tests.support import manifests
from tests.support.elastic_notes import Notes
from tests.support.elastic_programs import FITTING, WRAPPED
from tests.support.eventually import eventually, eventually_holds
from tests.support.in_cluster import LIMIT, ROOT, SHELL_IMAGE, TRAINING_IMAGE, InCluster, with_packages

Json = dict[str, Any]

SLOT = "example.com/slot"
"""A kind of device: the node has two, and each worker needs a device."""

READS = """
import os, socket, sys, time
folder, address = sys.argv[1], os.environ["TF_DATA_SERVICE"]
host, port = address.removeprefix("grpc://").rsplit(":", 1)
while not os.path.exists(folder + "/connected"):
    try:
        socket.create_connection((host, int(port)), 5).close()
        open(folder + "/connected", "w").write(address)
    except OSError:
        time.sleep(0.3)
while not os.path.exists(folder + "/end"):
    time.sleep(0.1)
"""
"""Connects to the dispatcher, and ends when a file appears. It does not start TensorFlow: the data service does."""


@pytest.fixture
def slots(namespace: InCluster) -> Iterator[None]:
    """The node has two of the devices, and pods may be urgent.

    The class is there long before a pod names it: an API server admits no pod whose class it has not seen yet.
    """
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    namespace.apply(urgent)
    change = [{"op": "add", "path": "/status/capacity/example.com~1slot", "value": "2"}]
    removal = [{"op": "remove", "path": f"/status/{place}/example.com~1slot"} for place in ("capacity", "allocatable")]

    def patch(changes: list[Json]) -> None:
        text = json.dumps(changes)
        namespace.kubectl("patch", "node", NODE_NAME, "--subresource=status", "--type=json", "-p", text)

    patch(change)

    def is_there() -> bool:
        return bool(namespace.get("node", NODE_NAME)["status"]["allocatable"].get(SLOT) == "2")

    eventually(is_there, within=60, what="the node has the devices")
    yield
    patch(removal)
    namespace.kubectl("delete", "priorityclass", "urgent")


def mounted(folder: Path, program: str, *arguments: str, **members: Any) -> Json:
    """The spec of a pod that runs Python with this folder of the node, and more arguments."""
    folder.chmod(0o777)
    command = ["python", "-u", "-c", program, str(folder), *arguments]
    container: Json = {"name": "tensorflow", "image": TRAINING_IMAGE, "command": command}
    container["volumeMounts"] = [{"name": "kept", "mountPath": str(folder)}]
    return {"containers": [container | members], "volumes": [{"name": "kept", "hostPath": {"path": str(folder)}}]}


@pytest.mark.tensorflow
@pytest.mark.usefixtures("slots")
@pytest.mark.parametrize("library", ["TensorFlow", "Keras on JAX"])
@pytest.mark.timeout(4 * LIMIT)
def test_a_job_that_loses_a_device_goes_on_with_one_worker_and_comes_back_without_losing_a_step(
    namespace: InCluster, tmp_path: Path, library: str
) -> None:
    notes = Notes(tmp_path / "notes")
    fitting = tmp_path / "fitting.py"
    fitting.write_text(FITTING)
    program = ROOT / "examples/elastic/train.py" if library == "TensorFlow" else fitting
    variables = {"PYTHONPATH": f"{ROOT}:/packages", "TFOPERATOR_CHECKPOINT_DIR": str(tmp_path)}
    pod = mounted(
        tmp_path,
        WRAPPED,
        str(program),
        resources={"requests": {"cpu": "1m"}, "limits": {SLOT: 1}},
        env=[{"name": name, "value": value} for name, value in variables.items()],
    )
    pod["volumes"].append({"name": "source", "hostPath": {"path": str(ROOT)}})
    pod["containers"][0]["volumeMounts"].append({"name": "source", "mountPath": str(ROOT), "readOnly": True})
    worker = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": pod}}
    policy = {"shrinkAfterSeconds": 2, "growAfterSeconds": 4}
    job = with_packages(manifests.job("elastic", {"Worker": worker}, elasticPolicy=policy))
    pod["terminationGracePeriodSeconds"] = 30  # these programs save when their end is announced
    namespace.apply(job)
    eventually(lambda: notes.trains_with(2, 1), within=LIMIT, what="two workers train")
    container = {"name": "takes", "image": SHELL_IMAGE, "command": ["sh", "-c", "sleep 600"]}
    container["resources"] = pod["containers"][0]["resources"]
    spec = {"priorityClassName": "urgent", "terminationGracePeriodSeconds": 0, "containers": [container]}
    taker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taker"}, "spec": spec}
    namespace.apply(taker)
    eventually(lambda: notes.trains_with(1, 2), within=LIMIT, what="one worker goes on")
    smaller = namespace.get("tfjob", "elastic")["status"]
    assert (smaller["elastic"]["workers"], smaller["ready"]) == (1, "1/1")
    assert f"1 replica has had no node for 2 seconds (Insufficient {SLOT})" in smaller["elastic"]["reason"]
    namespace.kubectl("delete", "pod", "taker", "--grace-period=0", "--force")
    eventually(lambda: notes.trains_with(2, 3), within=LIMIT, what="two workers train again")
    assert notes.lost() == [0, 0], "what is announced costs no step"
    status = namespace.get("tfjob", "elastic")["status"]
    assert [(resize["before"], resize["workers"]) for resize in status["elastic"]["resizes"]] == [(2, 1), (1, 2)]
    assert status["restarts"] == status["disruptions"]
    namespace.kubectl("delete", "tfjob", "elastic", "--wait=false")
    eventually(lambda: not namespace.list("pods"), within=LIMIT, what="the devices are free")


def program_of(pod: str) -> psutil.Process | None:
    """The process of a pod's container, by the pod's host name."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOSTNAME") == pod and "tensorflow" in " ".join(process.cmdline()):
                return process
        except psutil.Error:
            continue
    return None


def test_the_data_service_of_a_job_runs_is_made_again_and_ends_with_the_job(
    namespace: InCluster, tmp_path: Path
) -> None:
    worker = {"replicas": 1, "template": {"spec": mounted(tmp_path, READS)}}
    namespace.apply(with_packages(manifests.job("fed", {"Worker": worker}, dataService={"workers": 2})))

    def is_ready(restarts: int) -> None:
        status = namespace.get("tfjob", "fed").get("status", {}).get("dataService", {})
        assert (status.get("ready"), status.get("restarts", 0)) == ("3/3", restarts), status

    eventually_holds(lambda: is_ready(0), within=LIMIT, every=0.5, what="the dispatcher and data workers run")
    address = namespace.get("tfjob", "fed")["status"]["dataService"]["address"]
    eventually((tmp_path / "connected").exists, within=LIMIT, what="the worker has connected")
    assert (tmp_path / "connected").read_text() == address == f"grpc://fed-dispatcher-0.{namespace.namespace}.svc:5050"
    victim = eventually(lambda: program_of("fed-dataworker-1"), within=60, what="the data worker's program")
    assert victim is not None
    victim.kill()
    eventually_holds(lambda: is_ready(1), within=LIMIT, every=0.5, what="it is made again, and counted")
    assert namespace.get("tfjob", "fed")["status"].get("restarts", 0) == 0, "that is no restart of the training"
    (tmp_path / "end").touch()
    namespace.wait("fed", "Succeeded")
    running = ("--field-selector", "status.phase=Running")
    eventually(lambda: not namespace.list("pods", *running), within=60, every=0.3, what="all end with the job")
