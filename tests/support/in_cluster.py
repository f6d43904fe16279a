"""A cluster with a real node, as its users see it: kubectl, images, jobs whose containers run."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from hack import debian, gobuild, images
from hack.cluster import Cluster
from tests.support import manifests
from tests.support.cli import Cli
from tests.support.eventually import eventually_holds
from tests.support.kubectl import Kubectl
from tfoperator.api.v1.condition_types import PEER_CONDITIONS

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
SHELL_IMAGE = "docker.io/local/shell:1"
TRAINING_IMAGE = "docker.io/local/training:1"
"""Python and what of this machine's TensorFlow installation needs to be in the image; its packages are mounted."""
PROMETHEUS_IMAGE = "docker.io/local/prometheus:1"
PIPELINE_IMAGE = "docker.io/local/pipeline:1"
LIMIT = 240.0  # seconds; a pod takes one or two, TensorFlow on two cores thirty, and both more beside other tests


class InCluster:
    """One namespace of the cluster."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kubectl = Kubectl(cluster.kubeconfig, namespace)
        self.cli = Cli(folder, KUBECONFIG=str(cluster.kubeconfig))

    def tfoperator(self, *arguments: str, timeout: float = LIMIT) -> subprocess.CompletedProcess[str]:
        """A client command, as a user in this namespace types it."""
        return self.cli.run(*arguments, "-n", self.namespace, timeout=timeout)

    def get(self, kind: str, name: str) -> Json:
        return dict(json.loads(self.kubectl("get", kind, name, "-o", "json")))

    def list(self, kind: str, *selection: str) -> list[Json]:
        return list(json.loads(self.kubectl("get", kind, *selection, "-o", "json"))["items"])

    def apply(self, *manifests: Json) -> None:
        self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def kustomized(self, folder: Path) -> list[Json]:
        """The objects of an overlay."""
        return list(yaml.safe_load_all(self.kubectl("kustomize", str(folder))))

    def wait(self, job: str, condition: str, within: float = LIMIT) -> None:
        """Wait for a condition of a job, with kubectl; if it does not come, the test fails with the job's state."""
        ours = f'jsonpath={{.status.operatorConditions[?(@.type=="{condition}")].status}}=True'
        wanted = f"condition={condition}" if condition in PEER_CONDITIONS else ours
        try:
            self.kubectl("wait", f"--for={wanted}", f"tfjob/{job}", f"--timeout={within}s", timeout=within + 30)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tfoperator('describe', job).stdout}") from error

    def wait_operator(self) -> None:
        """Wait until every pod of the operator's Deployment in this namespace is new and ready."""
        self.kubectl("rollout", "status", "deployment/tfoperator", "--timeout=200s", timeout=220)

    def leader(self) -> str:
        """The holder of the operator's lease in this namespace; empty if there is none."""
        return str(self.get("lease", "tfoperator")["spec"].get("holderIdentity", ""))

    def kill_leader(self) -> str:
        """Kill the pod of the leader at once; return which holder it was."""
        holder = self.leader()
        self.kubectl("delete", "pod", holder.partition("_")[0], "--grace-period=0", "--force")
        return holder

    def wait_event(self, job: str, reason: str) -> None:
        """Wait for an event of a job, which is written after what it is about."""

        def is_recorded() -> None:
            events = self.tfoperator("events", job).stdout
            assert reason in events, events

        eventually_holds(is_recorded, within=LIMIT, every=0.5, what=f"event {reason} of {job}")

    def pod_uids(self, job: str) -> dict[str, str]:
        pods = self.list("pods", "-l", f"training.kubeflow.org/job-name={job}")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

    def wait_log(self, pod: str, text: str, within: float = LIMIT) -> None:
        """Wait for a line in the log of a pod, which may not be there yet."""

        def has_text() -> None:
            log = self.kubectl("logs", pod)
            assert text in log, log

        eventually_holds(has_text, within=within, every=0.3, what=f"{text!r} in the log of {pod}")


def shell_image(archive: Path) -> Path:
    """An image with busybox alone."""
    program = debian.find(debian.NODE) / "bin/busybox"
    return images.write_image(archive, SHELL_IMAGE, images.busybox(program), command=["sh"])


def training_image(archive: Path) -> Path:
    """An image that runs Python programs of this machine's virtual environment, once `with_packages` has mounted it."""
    files = images.python() | images.busybox(debian.find(debian.NODE) / "bin/busybox")
    files["app/examples"] = ROOT / "examples"
    files["usr/bin/tensorboard"] = b"#!/usr/bin/python\nfrom tensorboard.main import run_main\nrun_main()\n"
    packages = {"PYTHONPATH": "/packages", "PYTHONUNBUFFERED": "1"}
    return images.write_image(
        archive, TRAINING_IMAGE, files, command=["python"], env=packages, user="65532:65532", workdir="/app"
    )


def pipeline_image(archive: Path, files: Mapping[str, Path | bytes]) -> Path:
    """An image with the commands and, in /pipeline, these files. Its packages are mounted, as the training image's."""
    entry = b"#!/usr/bin/python\nfrom tfoperator.cli.__main__ import main\nimport sys\nsys.exit(main())\n"
    own: dict[str, Path | bytes | str] = {f"pipeline/{name}": file for name, file in files.items()}
    own |= {"app/tfoperator": ROOT / "tfoperator", "usr/bin/tfoperator": entry}
    base = images.python() | images.busybox(debian.find(debian.NODE) / "bin/busybox")
    environment = {"PYTHONPATH": "/app:/packages", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return images.write_image(archive, PIPELINE_IMAGE, base | own, env=environment, user="65532:65532")


def prometheus_image(archive: Path) -> Path:
    """Prometheus, which needs no libraries."""
    path = "usr/bin/prometheus"
    files = {path: gobuild.find("prometheus")}
    return images.write_image(archive, PROMETHEUS_IMAGE, files, command=[f"/{path}"], user="65532:65532")


def with_packages(job: Json) -> Json:
    """An example's job with the training image for its own, whose gigabyte of wheels is mounted, not copied."""
    packages, mount = packages_volume()
    for spec in job["spec"]["tfReplicaSpecs"].values():
        pod = spec["template"]["spec"]
        # The programs don't handle SIGTERM, which process 1 of a container then ignores: more time would not help.
        pod["terminationGracePeriodSeconds"] = 1
        [container] = pod["containers"]
        container["image"] = TRAINING_IMAGE
        container["volumeMounts"] = [*container.get("volumeMounts", []), mount]
        pod["volumes"] = [*pod.get("volumes", []), packages]
    if tensorboard := job["spec"].get("tensorBoard"):
        tensorboard["image"] = TRAINING_IMAGE
        tensorboard["volumeMounts"] = [*tensorboard["volumeMounts"], mount]
        tensorboard["volumes"] = [*tensorboard["volumes"], packages]
    return job


def packages_volume() -> tuple[Json, Json]:
    """The volume with the packages of this machine's virtual environment, and where the images look for it."""
    packages = {"name": "packages", "hostPath": {"path": sysconfig.get_path("purelib")}}
    return packages, {"name": "packages", "mountPath": "/packages", "readOnly": True}


RESTING = """
import os, runpy, sys
resumes = os.path.exists(os.environ["TFOPERATOR_CHECKPOINT_DIR"] + "/checkpoint")
sys.argv = [*sys.argv[1:], "--pause", "0" if resumes else "1000"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def with_rest(job: Json) -> Json:
    """An example's job that rests at its first checkpoint until it is made anew: then it goes on to its end."""
    for spec in job["spec"]["tfReplicaSpecs"].values():
        [container] = spec["template"]["spec"]["containers"]
        python, program = container["command"]
        container["command"] = [python, "-c", RESTING, program]
    return job


def volume_for(claim: Json, namespace: str, folder: Path) -> Json:
    """A volume of the node for a claim: `folder` has to outlive it. The claim gets what binds it."""
    for path in (folder, folder / "volume"):
        path.mkdir(exist_ok=True)
        path.chmod(0o777)  # a folder of the node does not know fsGroup
    claim["spec"]["storageClassName"] = ""
    claim["metadata"]["namespace"] = namespace
    return volume_of(claim, folder / "volume")


def volume_of(claim: Json, folder: Path) -> Json:
    """A folder of the node as the volume of a claim that names its namespace."""
    meta = claim["metadata"]
    spec = {
        "accessModes": claim["spec"]["accessModes"],
        "capacity": claim["spec"]["resources"]["requests"],
        "claimRef": {"namespace": meta["namespace"], "name": meta["name"]},
        "hostPath": {"path": str(folder)},
    }
    name = {"name": f"{meta['namespace']}-{meta['name']}"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": name, "spec": spec}


def process_of(marker: str) -> int:
    """Find the process whose command has this word. A child that was just forked has the same command at first."""
    processes = [
        process
        for process in psutil.process_iter(["cmdline", "ppid"])
        if marker in " ".join(process.info["cmdline"] or ())
    ]
    [first] = [process for process in processes if process.info["ppid"] not in {other.pid for other in processes}]
    return int(first.pid)


def example(path: str) -> Json:
    [manifest] = examples(path)
    return manifest


def examples(path: str) -> list[Json]:
    """The manifests in an example's file."""
    manifests = list(yaml.safe_load_all((ROOT / "examples" / path).read_text()))
    return list(json.loads(json.dumps(manifests)))  # what YAML's anchors share would be changed together


def shell_job(
    name: str, script: str, *, restart_policy: str = "Never", replicas: int = 1, grace: int = 1, **spec: Any
) -> Json:
    """A job whose workers run a shell script, with so many seconds to end; `spec` is added to the job's spec."""
    container = {
        "name": "tensorflow", "image": SHELL_IMAGE, "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
    }  # fmt: skip
    template = {"spec": {"terminationGracePeriodSeconds": grace, "containers": [container]}}
    worker = {"replicas": replicas, "restartPolicy": restart_policy, "template": template}
    return manifests.job(name, {"Worker": worker}, **spec)


def but_for_time(status: Json) -> Json:
    """A status but for what each comparison with the live state writes anew."""
    usage = {name: value for name, value in status["usage"].items() if name != "goodput"}
    return {name: value for name, value in {**status, "usage": usage}.items() if name != "lastReconcileTime"}
