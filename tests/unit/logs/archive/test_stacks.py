"""Stacks in the archive: beside the logs of their pod, whatever is kept before and after them."""

import threading
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.services import s3, s3_variables
from tests.support.threads import InThread, no_threads_left
from tests.unit.logs.archive.samples import JOB, JOB_UID, ended, pod, running
from tests.unit.logs.archive.test_writer import World, in_directory, world
from tfoperator.kube.views.pod_status import ContainerStatus
from tfoperator.logs.archive.layout import ArchivedPod
from tfoperator.logs.archive.opening import open_place
from tfoperator.logs.archive.pod_logs import ArchiveBounds
from tfoperator.logs.archive.reader import archived_pods, read_archived
from tfoperator.logs.archive.stacks import MAX_STACKS_BYTES
from tfoperator.object_store import is_object_url

__all__ = ["s3", "s3_variables", "world"]

RUNNING = pod(0, running())
TEXT = "Process 7:\n  File train.py, line 3 in step\n"


def kept(world: World) -> ArchivedPod:
    [archived] = archived_pods(world.root, "vision", "mnist", JOB_UID)
    return archived


def stacks(archived: ArchivedPod) -> str:
    [container] = archived.containers
    if not is_object_url(archived.folder):
        assert (Path(archived.folder) / container.stacks).stat().st_mode & 0o777 == 0o640
    return text_of(archived, container.stacks)


def text_of(archived: ArchivedPod, name: str) -> str:
    return open_place(archived.folder).read(name).decode()


def test_they_are_kept_of_a_pod_that_runs_without_its_log_which_comes_beside_them_when_it_ends(world: World) -> None:
    world.archive.keep_stacks(JOB, RUNNING, "tensorflow", TEXT)
    archived = kept(world)
    assert stacks(archived) == f"Stacks at {world.clock.now():%Y-%m-%dT%H:%M:%SZ}\n{TEXT}\n"
    assert read_archived(archived, archived.containers[0]) is None
    assert world.source.asked == []
    world.save(pod())
    archived = kept(world)
    assert TEXT in stacks(archived)
    assert read_archived(archived, archived.containers[0]) == "mnist-worker-0 tensorflow\n"
    assert archived.containers[0].exit_code == 137


def test_what_is_known_of_a_log_stays_as_it_was(world: World) -> None:
    """A run that went on when its log was read has no whole log, even if the pod's status shows its end by now."""
    world.save(RUNNING)
    before = kept(world).containers[0]
    world.archive.keep_stacks(JOB, pod(), "tensorflow", TEXT)
    archived = kept(world)
    assert archived.containers[0].exit_code is before.exit_code is None
    assert read_archived(archived, archived.containers[0]) == "mnist-worker-0 tensorflow\n"
    world.clock.advance(120)
    assert world.take(pod())
    assert kept(world).containers[0].exit_code == 137
    assert TEXT in stacks(kept(world))


def test_several_are_kept_one_below_the_other_within_a_bound(world: World) -> None:
    world.archive = world.make(bounds=ArchiveBounds(max_bytes=64 << 20, max_log_bytes=1 << 16, timeout=30.0))
    for text in ("first", "second"):
        world.archive.keep_stacks(JOB, RUNNING, "tensorflow", text)
    first, second = (stacks(kept(world)).index(text) for text in ("first", "second"))
    assert first < second
    world.archive.keep_stacks(JOB, RUNNING, "tensorflow", "x" * 2 * MAX_STACKS_BYTES)
    assert len(stacks(kept(world))) == MAX_STACKS_BYTES


def test_of_two_containers_each_has_its_own(world: World) -> None:
    two = pod(0, running(), running("sidecar"))
    for container in ("tensorflow", "sidecar"):
        world.archive.keep_stacks(JOB, two, container, f"of {container}")
    world.save(pod(0, *(ContainerStatus(name=name, state=ended()) for name in ("tensorflow", "sidecar"))))
    archived = kept(world)
    texts = {kept_container.name: text_of(archived, kept_container.stacks) for kept_container in archived.containers}
    assert [name for name, text in texts.items() if f"of {name}\n" in text] == ["tensorflow", "sidecar"]


def test_they_are_refused_where_there_is_no_room_and_by_a_closed_archive(world: World) -> None:
    world.archive = world.make(bounds=ArchiveBounds(max_bytes=100, max_log_bytes=50, timeout=30.0))
    with pytest.raises(OSError, match="the archive is full"):
        world.archive.keep_stacks(JOB, RUNNING, "tensorflow", "x" * 200)
    assert world.records() == list(open_place(world.root).found()) == []
    world.archive.close()
    with pytest.raises(OSError, match="stopping"):
        world.archive.keep_stacks(JOB, RUNNING, "tensorflow", TEXT)


def test_they_wait_for_a_log_that_is_being_written(world: World) -> None:
    world.source.gate = threading.Event()
    with no_threads_left():
        log = InThread(lambda: world.take(pod(), last=True))
        eventually(lambda: world.source.asked, what="the log is asked for")
        taking = InThread(lambda: world.archive.keep_stacks(JOB, RUNNING, "tensorflow", TEXT))
        world.source.gate.set()
        assert log.result()
        taking.result()
    archived = kept(world)
    assert TEXT in stacks(archived)
    assert read_archived(archived, archived.containers[0]) == "mnist-worker-0 tensorflow\n"


@in_directory
def test_a_record_that_leads_out_of_the_folder_is_not_followed(world: World, tmp_path: Path) -> None:
    world.archive.keep_stacks(JOB, RUNNING, "tensorflow", TEXT)
    archived = kept(world)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    record = Path(archived.folder) / "pod.json"
    record.write_text(record.read_text().replace("tensorflow.stacks.txt", "../../../secret"))
    world.archive.keep_stacks(JOB, RUNNING, "tensorflow", TEXT)
    assert "secret" not in stacks(kept(world))
