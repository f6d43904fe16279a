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
from tests.support.eventually import eventually, eventually_holds
from tests.support.in_cluster import LIMIT, SHELL_IMAGE, TRAINING_IMAGE, InCluster, with_packages

Json = dict[str, Any]

SLOT = "example.com/slot"
"""A kind of device: the node has two, and each worker needs a device."""

TRAINS = """
import json, os, signal, sys, time
folder = sys.argv[1]
config = json.loads(os.environ.get("TF_CONFIG") or '{"cluster": {"worker": [0]}, "task": {"index": 0}}')
workers, worker = len(config["cluster"]["worker"]), config["task"]["index"]
here, kept = f"{folder}/here-{worker}", f"{folder}/kept"
announced = []
signal.signal(signal.SIGTERM, lambda *_: announced.append(1))
open(here, "w").close()
done = int(open(kept).read()) if os.path.exists(kept) else 0
begun = False
while not announced:
    time.sleep(0.05)
    begins = not begun and all(os.path.exists(f"{folder}/here-{one}") for one in range(workers))
    if worker or not (begun or begins):
        continue
    with open(f"{folder}/notes", "a") as notes:
        if not begun:
            print(f"worker 0 of {workers} begins after step {done}", file=notes)
        done, begun = done + 1, True
        print(f"worker 0 of {workers} step {done}", file=notes)
if begun:
    open(kept, "w").write(str(done))
os.remove(here)
sys.exit(143)
"""
"""Worker 0 makes steps while all workers are there, and saves when its end is announced, and only then."""

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
    """The node has two of the devices."""
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


def mounted(folder: Path, command: list[str], **members: Any) -> Json:
    """The spec of a pod that runs Python with this folder of the node."""
    folder.chmod(0o777)
    full = ["python", "-u", "-c", *command, str(folder)]
    container: Json = {"name": "tensorflow", "image": TRAINING_IMAGE, "command": full}
    container["volumeMounts"] = [{"name": "kept", "mountPath": str(folder)}]
    return {"containers": [container | members], "volumes": [{"name": "kept", "hostPath": {"path": str(folder)}}]}


@pytest.mark.usefixtures("slots")
def test_a_job_that_loses_a_device_goes_on_with_one_worker_and_comes_back_without_losing_a_step(
    namespace: InCluster, tmp_path: Path
) -> None:
    notes = Notes(tmp_path / "notes")
    slot = {"resources": {"requests": {"cpu": "1m"}, "limits": {SLOT: 1}}}
    worker = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": mounted(tmp_path, [TRAINS], **slot)}}
    policy = {"shrinkAfterSeconds": 2, "growAfterSeconds": 4}
    namespace.apply(manifests.job("elastic", {"Worker": worker}, elasticPolicy=policy))
    eventually(lambda: notes.trains_with(2, 1), within=LIMIT, what="two workers train")
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    container = {"name": "takes", "image": SHELL_IMAGE, "command": ["sh", "-c", "sleep 600"], **slot}
    spec = {"priorityClassName": "urgent", "terminationGracePeriodSeconds": 0, "containers": [container]}
    taker = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "taker"}, "spec": spec}
    namespace.apply(urgent, taker)
    eventually(lambda: notes.trains_with(1, 2), within=LIMIT, what="one worker goes on")
    smaller = namespace.get("tfjob", "elastic")["status"]
    assert (smaller["elastic"]["workers"], smaller["ready"]) == (1, "1/1")
    assert f"1 replica has had no node for 2 seconds (Insufficient {SLOT})" in smaller["elastic"]["reason"]
    namespace.kubectl("delete", "pod", "taker", "--grace-period=0", "--force")
    eventually(lambda: notes.trains_with(2, 3), within=LIMIT, what="two workers train again")
    assert notes.lost() == [0, 0], "what is announced costs no step"
    status = namespace.get("tfjob", "elastic")["status"]
    assert [(one["before"], one["workers"]) for one in status["elastic"]["resizes"]] == [(2, 1), (1, 2)]
    assert status["restarts"] == status["disruptions"]
    namespace.kubectl("delete", "tfjob", "elastic", "--wait=false")
    namespace.kubectl("delete", "priorityclass", "urgent")


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
    worker = {"replicas": 1, "template": {"spec": mounted(tmp_path, [READS])}}
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
