"""Programs that know nothing of us report from pods of a node to the operator's service, and kubectl shows it."""

from pathlib import Path

import tfoperator
from hack import strangers
from tests.e2e.programs_that_report import KERAS, KUBEFLOW, TRANSFORMERS
from tests.support import manifests
from tests.support.in_cluster import InCluster, Json, with_packages


def reporting(name: str, program: str, python_path: str, folder: Path, place: str) -> Json:
    """A job of one worker, with this folder of the machine in that place."""
    container = {
        "name": "tensorflow",
        "command": ["python", "-c", program],
        "env": [{"name": "PYTHONPATH", "value": python_path}],
        "volumeMounts": [{"name": "more", "mountPath": place, "readOnly": True}],
    }
    pod = {"containers": [container], "volumes": [{"name": "more", "hostPath": {"path": str(folder)}}]}
    return with_packages(manifests.job(name, {"Worker": {"replicas": 1, "template": {"spec": pod}}}, progress={}))


def test_the_clients_of_the_protocol_report_from_pods_and_kubectl_shows_it(namespace: InCluster) -> None:
    [theirs] = strangers.find().parents[1].glob("lib/python*/site-packages")
    ours = Path(tfoperator.__file__).parent
    namespace.apply(
        reporting("sdk", KUBEFLOW, "/theirs", theirs, "/theirs"),
        reporting("callback", TRANSFORMERS, "/theirs", theirs, "/theirs"),
        reporting("keras", KERAS, "/ours:/packages", ours, "/ours/tfoperator"),
    )
    names = ("sdk", "callback", "keras")
    for name in names:
        namespace.wait(name, "Succeeded")
    reports = {name: namespace.get("tfjob", name)["status"]["progress"] for name in names}
    assert {name: report["percentage"] for name, report in reports.items()} == {
        "sdk": 42,
        "callback": 100,
        "keras": 100,
    }
    assert {report["replica"] for report in reports.values()} == {"worker-0"}
    assert (reports["callback"]["totalSteps"], reports["keras"]["totalSteps"]) == (50, 16)
    header, *rows = (line.split() for line in namespace.kubectl("get", "tfj").splitlines())
    shown = {row[0]: dict(zip(header, row, strict=False)) for row in rows}
    assert (shown["sdk"]["PROGRESS"], reports["sdk"].get("eta")) == ("42%", None)  # a job that has ended has no ETA
    assert shown["keras"]["PROGRESS"] == "100%"
