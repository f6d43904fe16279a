"""Volumes of processes: each pod sees its own, as root and as an ordinary user, with mount namespaces and without."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cli import Cli
from tests.support.eventually import eventually
from tests.support.machines import AS_ORDINARY_USER, WITHOUT_NAMESPACES, folder_for_all, is_root
from tests.support.manifests import config_map

MACHINES = {"namespaces": (), "ordinary user": AS_ORDINARY_USER, "forbidden": WITHOUT_NAMESPACES}
"""The beginning of a command that runs it on such a machine."""


@pytest.fixture(
    params=[
        pytest.param("namespaces", marks=pytest.mark.journey),
        *(("ordinary user", "forbidden") if is_root() else ()),
    ]
)
def cli(request: pytest.FixtureRequest) -> Iterator[Cli]:
    with folder_for_all() as folder:
        home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
        yield Cli(folder, prefix=MACHINES[request.param], **home)


def job(name: str, script: str, volume: dict[str, Any], path: str, workers: int = 2, **spec: Any) -> dict[str, Any]:
    """A job whose workers run a shell script with a volume at this path."""
    mounts = [{"name": "v", "mountPath": path}]
    main = {"name": "tensorflow", "image": "x", "command": ["sh", "-c", script], "volumeMounts": mounts}
    for container in spec.get("initContainers", ()):
        container["volumeMounts"] = mounts
    template = {"spec": {"containers": [main], "volumes": [{"name": "v", **volume}], **spec}}
    worker = {"replicas": workers, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name},
        "spec": {"successPolicy": "AllWorkers", "tfReplicaSpecs": {"Worker": worker}},
    }  # fmt: skip


def claim(name: str) -> dict[str, Any]:
    request = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": request}


def claimed(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def two(path: str) -> list[dict[str, Any]]:
    """Two jobs with two claims at one path, each of which reads what it has written."""
    made = []
    for letter in "ab":
        script = f"ls {path}; echo weights-of-{letter} > {path}/model; sleep 1; cat {path}/model"
        made += [claim(f"claim-{letter}"), job(f"job-{letter}", script, claimed(f"claim-{letter}"), path, workers=1)]
    return made


def program(path: str) -> list[dict[str, Any]]:
    """A program in a ConfigMap, for two workers of which one ends before the other begins to read."""
    script = f"case $HOSTNAME in *-0) ;; *) sleep 1;; esac; sh {path}/train.sh"
    volume = {"configMap": {"name": "code"}}
    return [config_map("code", **{"train.sh": "echo trained\n"}), job("program", script, volume, path)]


def own_name(path: str) -> list[dict[str, Any]]:
    """The name of the pod, by the downward API."""
    files = {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}
    return [job("own", f"sleep 0.5; echo reads $(cat {path}/name)", {"downwardAPI": files}, path)]


def scratch(path: str) -> list[dict[str, Any]]:
    script = f"echo $HOSTNAME >> {path}/who; sleep 0.5; echo sees $(cat {path}/who)"
    return [job("scratch", script, {"emptyDir": {}}, path)]


def fetched(path: str) -> list[dict[str, Any]]:
    """A program that an init container fetches, as git-sync does."""
    fetch = {
        "name": "fetch",
        "image": "x",
        "command": ["sh", "-c", f"mkdir {path}/r && echo 'echo 42' > {path}/r/t.sh"],
    }
    return [job("fetched", f"sh {path}/r/t.sh", {"emptyDir": {}}, path, initContainers=[fetch])]


CASES: list[tuple[Callable[[str], list[dict[str, Any]]], dict[str, str]]] = [
    (two, {"job-a/worker-0": "weights-of-a", "job-b/worker-0": "weights-of-b"}),
    (program, {"worker-0": "trained", "worker-1": "trained"}),
    (own_name, {"worker-0": "reads own-worker-0", "worker-1": "reads own-worker-1"}),
    (scratch, {"worker-0": "sees scratch-worker-0", "worker-1": "sees scratch-worker-1"}),
    (fetched, {"worker-0": "42", "worker-1": "42"}),
]


@pytest.mark.parametrize(("make", "expected"), CASES, ids=[case[0].__name__ for case in CASES])
def test_each_pod_sees_its_own_volumes_and_the_machine_stays_as_it_is(
    cli: Cli, make: Callable[[str], list[dict[str, Any]]], expected: dict[str, str]
) -> None:
    before = sorted(os.listdir("/"))
    path = f"/tfo-{os.getpid()}-{make.__name__}"
    printed = cli.run("run", cli.write(*map(json.dumps, make(path))), code=0).stdout.splitlines()
    lines = {line[1:].partition("] ")[::2] for line in printed if line.startswith("[") and "] warning: " not in line}
    assert {(name, line) for name, line in lines if name in expected} == set(expected.items())
    assert sorted(os.listdir("/")) == before


def test_a_pod_waits_for_a_path_of_another_pod_only_where_namespaces_are_forbidden(cli: Cli) -> None:
    path = f"/tfo-{os.getpid()}-wait"
    output = cli.run("run", cli.write(*map(json.dumps, scratch(path))), code=0).stdout
    forbidden = cli.command[: len(WITHOUT_NAMESPACES)] == WITHOUT_NAMESPACES
    assert ("FailedMount" in output) == forbidden, output
    if forbidden:
        assert f"volume 'v' can't be mounted: {path} is used by volume 'v' of pod default/scratch-worker-" in output


def test_a_run_that_is_killed_leaves_nothing_at_a_mount_path(cli: Cli) -> None:
    at = cli.folder / "data"
    jobs = [job("killed", f"echo up > {at}/x; cat {at}/x; sleep 600", {"emptyDir": {}}, str(at), workers=1)]
    with cli.start("run", cli.write(*map(json.dumps, jobs))) as run:
        run.until("up")
        assert os.path.lexists(at)
        run.end(signal.SIGKILL)
    eventually(lambda: not os.path.lexists(at), what="the guardian has removed it")
