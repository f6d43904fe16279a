"""Volumes on a machine that permits no mount namespaces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.local.node.pods import container, manifest, python, view
from tests.unit.local.runtime.process.test_runtime import Bench
from tfoperator.local.runtime.protocol import LocalPod, Mount, StartLater


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, mount_namespaces=False)
    yield bench
    bench.runtime.stop()


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """One with a long path."""
    volume = tmp_path / ("v" * 90)
    volume.mkdir()
    return volume


def pod(name: str) -> LocalPod:
    local_pod = view(manifest(name, container()))
    return msgspec.structs.replace(local_pod, metadata=msgspec.structs.replace(local_pod.metadata, uid=f"uid-{name}"))


def test_a_volume_at_tmp_is_the_temporary_directory_and_has_room_for_sockets(bench: Bench, volume: Path) -> None:
    mounts = (Mount("scratch", volume, "/tmp"),)
    code = "import os, multiprocessing.connection as c, tempfile as t; l = c.Listener(family='AF_UNIX')\n"
    code += "print(os.path.realpath(t.mkdtemp()), os.environ['TFOPERATOR_MOUNT_SCRATCH'], os.environ['TMPDIR'])"
    made, variable, link = map(Path, bench.run(python(code), mounts=mounts).split())
    assert made.parent == variable == link.readlink() == volume
    bench.runtime.release_pod(bench.pod)
    assert not link.is_symlink()


def test_a_mount_appears_within_another_one_in_any_order_and_goes_with_the_pod(
    bench: Bench, volume: Path, tmp_path: Path
) -> None:
    outer, inner, at = tmp_path / "outer", volume, tmp_path / "mnt"
    outer.mkdir()
    mounts = (Mount("inner", inner, str(at / "cache")), Mount("outer", outer, str(at)))
    (inner / "x").write_text("content")
    assert bench.run(["cat", str(at / "cache" / "x")], mounts=mounts) == "content"
    assert not bench.warnings
    bench.runtime.release_pod(bench.pod)
    assert (inner / "x").exists()
    assert (list(outer.iterdir()), at.is_symlink()) == ([], False)


def test_a_mount_never_replaces_what_is_there_and_the_checkpoint_variable_names_the_volume_all_the_same(
    bench: Bench, volume: Path, tmp_path: Path
) -> None:
    at = tmp_path / "mnt"
    at.mkdir()
    (at / "precious").write_text("")
    mount, env = Mount("tfoperator-checkpoint", volume, str(at)), {"TFOPERATOR_CHECKPOINT_DIR": str(at)}
    assert bench.run(["sh", "-c", "echo $TFOPERATOR_CHECKPOINT_DIR"], env, mounts=(mount,)) == f"{volume}\n"
    assert bench.warnings == ["MountUnavailable"]
    assert (at / "precious").exists()


def test_a_path_has_one_volume_at_a_time_and_another_pod_waits_until_the_last_user_has_ended(
    bench: Bench, volume: Path, tmp_path: Path
) -> None:
    at = tmp_path / "mnt"
    other = tmp_path / "other"
    other.mkdir()

    def reserve(name: str, source: Path) -> None:
        bench.runtime.reserve(pod(name), (Mount("weights", source, str(at)),))

    reserve("first", volume)
    reserve("second", volume)  # the same folder: it is shared
    for ended in ("first", "second"):
        with pytest.raises(StartLater) as caught:
            reserve("third", other)
        assert (caught.value.reason, caught.value.event) == ("ContainerCreating", "FailedMount")
        holder = {"first": ("ns/first", "ns/second"), "second": ("ns/second",)}[ended]
        assert any(f"{at} is used by volume 'weights' of pod {key}" in str(caught.value) for key in holder)
        assert at.readlink() == volume
        bench.runtime.release_pod(pod(ended))
    reserve("third", other)
    assert at.readlink() == other


def test_a_containers_volume_may_have_other_content_at_its_next_start(bench: Bench, tmp_path: Path) -> None:
    at, folders = tmp_path / "mnt", [tmp_path / "old", tmp_path / "new"]
    for folder in folders:
        folder.mkdir()
        bench.runtime.reserve(pod("p"), (Mount("code", folder, str(at)),))
        assert at.readlink() == folder
    with pytest.raises(StartLater, match="of pod ns/p"):
        bench.runtime.reserve(pod("p"), (Mount("another", folders[0], str(at)),))


def test_a_link_of_another_user_is_never_used(
    bench: Bench, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = tmp_path / "mnt"
    at.symlink_to(volume)  # where the volume is, and still another user could replace it
    real = Path.lstat

    def owned_by_another(path: Path) -> Any:
        status = real(path)
        return type(status)((*status[:4], 54321, *status[5:])) if path == at else status

    monkeypatch.setattr(Path, "lstat", owned_by_another)
    with pytest.raises(StartLater, match=f"{at} is a symbolic link of another user \\(ID 54321\\)"):
        bench.runtime.reserve(pod("p"), (Mount("v", volume, str(at)),))


def test_the_volume_of_another_run_is_never_used(bench: Bench, volume: Path, tmp_path: Path) -> None:
    at = tmp_path / "mnt"
    theirs = tmp_path / "another-run" / "volumes" / "claims" / "ns" / "weights"
    theirs.mkdir(parents=True)
    at.symlink_to(theirs)
    (tmp_path / "another-run" / "processes").mkdir()
    (tmp_path / "another-run" / "processes" / "owner").write_text("{}")
    with pytest.raises(StartLater, match=r"is used by a volume of another run .*/another-run"):
        bench.runtime.reserve(pod("p"), (Mount("v", volume, str(at)),))
