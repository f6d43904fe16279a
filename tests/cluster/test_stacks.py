"""A job that hangs on a node: the operator reports it and keeps, in its archive, where the programs are."""

from pathlib import Path

import tfoperator
from tests.support import manifests
from tests.support.eventually import eventually
from tests.support.in_cluster import InCluster, Json, with_packages

HANGS = """
import threading
from tfoperator.progress.stacks import register

def wait_for_a_peer():
    print("waits", flush=True)
    threading.Event().wait()

assert register()
wait_for_a_peer()
"""


def hanging_job(name: str) -> Json:
    """Two workers that wait for ever, each the first process of its container."""
    library = {"name": "library", "hostPath": {"path": str(Path(tfoperator.__file__).parent)}}
    container = {
        "name": "tensorflow",
        "command": ["python", "-c", HANGS],
        "volumeMounts": [{"name": "library", "mountPath": "/app/tfoperator", "readOnly": True}],
    }
    worker = {"replicas": 2, "template": {"spec": {"containers": [container], "volumes": [library]}}}
    return with_packages(manifests.job(name, {"Worker": worker}, runPolicy={"progressDeadlineSeconds": 30}))


def test_the_stacks_of_a_job_that_hangs_are_in_the_archive(namespace: InCluster, archive: Path) -> None:
    namespace.apply(hanging_job("hangs"))
    namespace.wait("hangs", "Stalled")
    namespace.wait_event("hangs", "StacksTaken")

    def kept() -> list[str]:
        files = archive.glob(f"{namespace.namespace}/**/*stacks*")
        return [file.read_text() for file in files]

    eventually(lambda: len(kept()) == 2, within=60, every=0.5, what="the stacks of both workers are kept")
    assert all("in wait_for_a_peer" in text for text in kept()), kept()
    output = namespace.tfoperator("stacks", "hangs").stdout
    assert output.count("in wait_for_a_peer") == 2, output
