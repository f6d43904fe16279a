"""Folders that travel to replicas on a node, which gives them no right and no image of their own."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hack.machine import HOST_ADDRESS
from hack.s3_server import s3_server
from tests.support.eventually import eventually
from tests.support.in_cluster import LIMIT, TRAINING_IMAGE, InCluster
from tfoperator.object_store import Objects

HOSTILE = (b"-rf", b"a\nb", b"\xff\xfe", b"$(touch x)")

PROGRAM = """
import hashlib, os, sys, time

hashed, count = hashlib.sha256(), 0
for place, folders, files in os.walk(b"."):
    folders.sort()
    for name in sorted(files):
        path = os.path.join(place, name)
        with open(path, "rb") as stream:
            content = stream.read()
        hashed.update(b"%d %s %d %s" % (len(path), path, len(content), content))
        count += 1
print("has", count, hashed.hexdigest(), flush=True)
if len(sys.argv) > 1:
    sys.exit()
with open("train.py", "a") as stream:
    stream.write("# and more")
if not os.path.exists("../failed"):
    open("../failed", "w").close()
    sys.exit(3)
time.sleep(1000)
"""


def filled(folder: Path, files: int, size: int) -> Path:
    """A folder with a program and so many files beside it."""
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    for number in range(files):
        path = folder / f"data/{number % 40}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    for name in HOSTILE:
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(name * 3)
    return folder


def submit(namespace: InCluster, folder: Path, name: str, workers: int) -> None:
    program, image = str(folder / "train.py"), ("--image", TRAINING_IMAGE, "--workdir", str(folder))
    options = ("--name", name, "--workers", str(workers), "--max-restarts", "9", "--grace", "1s")
    done = namespace.tfoperator("submit", program, *image, *options)
    assert done.returncode == 0, done.stderr


def starts_of(namespace: InCluster, folder: Path, pod: str) -> None:
    """Wait until the second start in a pod has the folder's present text, and check that the first start had it."""
    here = subprocess.run([sys.executable, "train.py", "-"], cwd=folder, check=True, capture_output=True, text=True)
    namespace.wait_log(pod, here.stdout)

    def again() -> bool:
        return namespace.get("pod", pod)["status"]["containerStatuses"][0]["restartCount"] == 1

    eventually(again, within=LIMIT, every=0.3, what=f"{pod} has started again")
    namespace.wait_log(pod, here.stdout)
    eventually(lambda: namespace.kubectl("logs", pod, "--previous") == here.stdout, within=LIMIT, every=0.3)


def left(namespace: InCluster) -> Counter[str]:
    objects = (*namespace.list("secrets"), *namespace.list("configmaps"), *namespace.list("pods"))
    kinds = [obj["kind"] for obj in objects if obj["metadata"]["name"] != "kube-root-ca.crt"]
    return Counter(kinds)


def test_a_small_folder_comes_in_a_configmap(namespace: InCluster, tmp_path: Path) -> None:
    folder = filled(tmp_path / "work", 20, 1000)
    submit(namespace, folder, "small", 2)
    for index in range(2):
        starts_of(namespace, folder, f"small-worker-{index}")
    assert left(namespace) == {"ConfigMap": 1, "Pod": 2}
    namespace.kubectl("delete", "tfjob", "small")
    eventually(lambda: not left(namespace), within=LIMIT, every=0.5, what="nothing is left")


def test_2000_files_and_50_mib_come_from_a_store(
    namespace: InCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path / "work", 2000, (50 << 20) // 2000)
    with s3_server(HOST_ADDRESS) as variables:
        variables["TFOPERATOR_WORKDIR_STORE"] = "s3://records/folders"
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        namespace.cli.environment.update(variables)
        store = Objects("s3://records/folders")
        submit(namespace, folder, "large", 1)
        starts_of(namespace, folder, "large-worker-0")
        submit(namespace, folder, "other", 1)
        starts_of(namespace, folder, "other-worker-0")
        assert left(namespace) == {"Secret": 1, "Pod": 2}
        assert len(list(store.all())) == 1

        assert namespace.tfoperator("delete", "large", "--wait").returncode == 0
        assert len(list(store.all())) == 1
        before = namespace.pod_uids("other")
        namespace.kubectl("delete", "pod", "other-worker-0")
        eventually(
            lambda: len(namespace.pod_uids("other")) == 1 and namespace.pod_uids("other") != before,
            within=LIMIT,
            every=0.3,
            what="the replica has another pod",
        )
        starts_of(namespace, folder, "other-worker-0")
        assert namespace.tfoperator("scale", "other", "--workers", "2").returncode == 0
        starts_of(namespace, folder, "other-worker-1")

        assert namespace.tfoperator("delete", "other", "--wait").returncode == 0
        assert list(store.all()) == []
        eventually(lambda: not left(namespace), within=LIMIT, every=0.5, what="nothing is left")
