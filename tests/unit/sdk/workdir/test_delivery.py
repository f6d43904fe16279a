import base64
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.cluster import tfjob
from tests.support.eventually import eventually
from tests.support.served import ServedWorld
from tests.support.services import s3, s3_variables
from tfoperator.kube import ForbiddenError
from tfoperator.kube.protocol.errors import NotFoundError, Status
from tfoperator.kube.protocol.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from tfoperator.object_store import Objects
from tfoperator.sdk import WorkdirError
from tfoperator.sdk.workdir.delivery import STORE_VARIABLE, Folder, sweep

__all__ = ["s3", "s3_variables"]


@pytest.fixture
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("work")
    (made / "train.py").write_text("print(1)\n")
    return made


@pytest.fixture
def large(work: Path) -> Path:
    (work / "data").write_bytes(os.urandom(2 << 20))
    return work


def job(name: str) -> dict[str, Any]:
    return tfjob(name, Worker=1, PS=1)


def parameter_server(manifest: dict[str, Any]) -> dict[str, Any]:
    [container] = manifest["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"]
    return container


def owners(world: ServedWorld, resource: Any = CONFIG_MAPS) -> list[list[str]]:
    objects = world.client.list(resource, world.namespace, json.loads).items
    return [sorted(owner["name"] for owner in obj["metadata"]["ownerReferences"]) for obj in objects]


def test_replicas_start_their_commands_in_the_folder(world: ServedWorld, work: Path) -> None:
    world.sdk.create_job(job("a"), workdir=work)
    made = world.job("a")
    for spec in made["spec"]["tfReplicaSpecs"].values():
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        assert container["command"][:2] == ["python3", "-c"]
        assert container["command"][6:] == parameter_server(job("a"))["command"]
        assert pod["volumes"][-1]["configMap"]["name"] == made["metadata"]["labels"]["training.kubeflow.org/workdir"]
    bare = job("b")
    del parameter_server(bare)["command"]
    with pytest.raises(WorkdirError, match="the container tensorflow must have a command"):
        world.sdk.create_job(bare, workdir=work)
    with pytest.raises(WorkdirError, match=r"needs\.txt is not copied"):
        world.sdk.create_job(job("b"), workdir=work, requirements="needs.txt")
    world.sdk.create_job(job("b"), workdir=work, dry_run=True)
    assert owners(world) == [["a"]]


def test_a_job_without_its_folder_is_deleted(world: ServedWorld, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "_carry", interrupt)
        with pytest.raises(KeyboardInterrupt):
            world.sdk.create_job(job("a"), workdir=work)
    assert world.sdk.list_jobs() == []
    errors = [ForbiddenError(Status(code=403)), NotFoundError(Status(code=404))]
    carry = Folder._carry

    def compete(self: Folder, *given: Any) -> None:
        """Somebody makes it in between, or it goes."""
        if errors:
            raise errors.pop()
        carry(self, *given)

    monkeypatch.setattr(Folder, "_carry", compete)
    with pytest.raises(ForbiddenError):
        world.sdk.create_job(job("a"), workdir=work)
    world.sdk.create_job(job("a"), workdir=work)
    assert owners(world) == [["a"]]


def test_a_large_folder_needs_a_store(world: ServedWorld, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    with pytest.raises(
        WorkdirError, match=r"has 2\.0 MiB when packed, but a ConfigMap can have at most 1 MiB: set an object"
    ):
        world.sdk.create_job(job("a"), workdir=large)


@pytest.fixture
def store(world: ServedWorld, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Objects:
    """Return the objects that are kept for the test's namespace."""
    monkeypatch.setenv(STORE_VARIABLE, f"s3://records/{world.namespace}/")
    uid = world.client.get(NAMESPACES, "", world.namespace, json.loads)["metadata"]["uid"]
    return Objects(f"s3://records/{world.namespace}/{uid}")


def link(world: ServedWorld, folder: Folder) -> str:
    secret = world.client.get(SECRETS, world.namespace, folder.name, json.loads)
    return base64.b64decode(secret["data"]["link"]).decode()


def test_a_store_has_it_once_until_the_last_job_is_deleted(world: ServedWorld, store: Objects, large: Path) -> None:
    folder = Folder(large)
    with patch.object(Objects, "put", autospec=True, side_effect=Objects.put) as put:
        for name in ("a", "b", "c"):
            world.sdk.create_job(job(name), workdir=large)
    assert owners(world, SECRETS) == [["a", "b", "c"]]
    assert put.call_count == 1
    assert [obj.size for obj in store.all()] == [len(folder.package.content)]
    with urllib.request.urlopen(link(world, folder)) as answer:
        assert answer.read() == folder.package.content
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(link(world, folder).partition("?")[0])
    world.sdk.delete_job("a")
    world.sdk.delete_job("b")
    assert len(list(store.all())) == 1
    world.sdk.delete_job("c")
    assert list(store.all()) == []
    eventually(lambda: owners(world, SECRETS) == [], what="the Secret is gone")


def test_no_object_is_shared_with_a_job_that_is_gone(world: ServedWorld, store: Objects, large: Path) -> None:
    """Another client may be about to remove its object."""
    folder = Folder(large)
    holder = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "holder"}}
    uid = world.client.create(CONFIG_MAPS, world.namespace, holder, json.loads)["metadata"]["uid"]
    meta = {
        "name": folder.name,
        "annotations": {"training.kubeflow.org/workdir-key": f"{folder.name}/old.tar.gz"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "holder", "uid": uid}],
    }
    world.client.create(SECRETS, world.namespace, {"apiVersion": "v1", "kind": "Secret", "metadata": meta}, json.loads)
    store.put(f"{folder.name}/old.tar.gz", b"old")
    made = world.sdk.create_job(job("a"), workdir=large)
    assert f"{folder.name}/{made.metadata.uid}.tar.gz?" in link(world, folder)
    world.sdk.delete_job("a")
    assert list(store.all()) == []


def test_a_sweep_removes_only_what_jobs_of_this_namespace_left(world: ServedWorld, store: Objects, large: Path) -> None:
    world.sdk.create_job(job("a"), workdir=large)
    store.put("workdir-0123/gone.tar.gz", b"x")
    above = Objects(store.url.rpartition("/")[0])
    above.put("another-cluster/workdir-0123/theirs.tar.gz", b"x")
    sweep(world.client, world.namespace)
    open_files = len(os.listdir("/dev/fd"))
    for _ in range(10):
        sweep(world.client, world.namespace)
    assert len(os.listdir("/dev/fd")) < open_files + 10, "a connection of each sweep stays open"
    left = sorted(obj.key.split("/")[-2] for obj in above.all())
    assert left == sorted(["workdir-0123", Folder(large).name])


def test_a_store_that_is_down_keeps_no_job(world: ServedWorld, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_VARIABLE, "nonsense://x")
    world.sdk.create_job(job("a"))
    world.sdk.delete_job("a")
    with pytest.raises(OSError, match="must have the form"):
        world.sdk.create_job(job("b"), workdir=large)
    assert world.sdk.list_jobs() == []
