from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tests.support.threads import no_threads_left
from tests.unit.archive.samples import JOB, JOB_UID, Source, pod, running, waiting
from tfoperator.archive import ArchivedPod, LogArchive, archived_pods, ensure_writable, read_archived
from tfoperator.kube.client import Client
from tfoperator.kube.cluster import ClusterConfig
from tfoperator.kube.errors import NotFoundError, StatusDetails


class World:
    """An archive with everything that it tells."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = FakeClock()
        self.source = Source()
        self.reports: list[str] = []
        self.calls: list[str] = []
        self.sizes: list[int] = []
        self.failures = 0
        self.archive = self.make()

    def make(self, **options: Any) -> LogArchive:
        chosen: dict[str, Any] = {"max_bytes": 1 << 20, "max_log_bytes": 1 << 16, "timeout": 30.0, **options}
        return LogArchive(
            self.source,
            self.root,
            report=lambda job, message: self.reports.append(f"{job.metadata.key}: {message}"),
            metrics=self,
            clock=self.clock,
            **chosen,
        )

    def archived(self, size: int) -> None:
        self.sizes.append(size)

    def archive_failed(self) -> None:
        self.failures += 1

    def save(self, *pods: Any) -> frozenset[str]:
        """Archive pods, and wait for the end of that."""
        before = len(self.calls)
        busy = self.archive.prepare(JOB, pods, lambda: self.calls.append("done"))
        if busy:
            eventually(lambda: len(self.calls) > before, what="the archive is done")
        return busy

    def found(self) -> list[ArchivedPod]:
        return archived_pods(self.root, "vision", "mnist", JOB_UID)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with no_threads_left():
        made = World(tmp_path / "archive")
        yield made
        made.archive.close()


def texts(record: ArchivedPod) -> dict[str, str | None]:
    found = {}
    for one in record.containers:
        found[one.name] = read_archived(record, one)
        if one.previous_log:
            found[f"{one.name} before"] = read_archived(record, one, previous=True)
    return found


def test_the_logs_of_every_container_are_kept_and_what_the_pod_was(world: World) -> None:
    doomed = pod(0, running(restarts=2), running("side/../car"), init=[running("fetch")])
    assert world.save(doomed) == {doomed.metadata.uid}
    (record,) = world.found()
    assert texts(record) == {
        "fetch": "mnist-worker-0 fetch\n",
        "tensorflow": "mnist-worker-0 tensorflow\n",
        "tensorflow before": "mnist-worker-0 tensorflow before\n",
        "side/../car": "mnist-worker-0 side/../car\n",
    }
    assert (record.node, record.phase, record.job, record.pod_uid) == ("node-7", "Failed", "mnist", doomed.metadata.uid)
    assert "team" not in record.labels
    assert [one.restarts for one in record.containers] == [0, 2, 0]
    assert world.sizes == [sum(one.size for one in record.containers)]
    assert world.reports == []


def test_afterwards_the_pod_may_go_and_nothing_is_fetched_twice(world: World) -> None:
    doomed = pod()
    world.save(doomed)
    assert world.save(doomed) == frozenset()
    assert len(world.source.asked) == 1


def test_a_pod_that_was_left_alone_for_long_has_more_to_tell(world: World) -> None:
    doomed = pod(0, running())
    world.save(doomed)
    world.clock.advance(61)
    world.source.texts["mnist-worker-0", "tensorflow", False] = [b"new\n"]
    assert world.save(doomed) == {doomed.metadata.uid}
    (record,) = world.found()
    assert texts(record) == {"tensorflow": "new\n"}


def test_pods_that_never_ran_wait_for_nothing(world: World) -> None:
    assert world.save(pod(0, waiting())) == frozenset()
    assert world.source.asked == []


def test_nobody_waits_longer_than_the_time_for_it(world: World) -> None:
    world.source.gate = threading.Event()
    slow = pod()
    prepare: Callable[[], frozenset[str]] = lambda: world.archive.prepare(JOB, [slow], lambda: world.calls.append("x"))  # noqa: E731
    assert prepare() == {slow.metadata.uid}
    eventually(lambda: world.source.asked)
    assert prepare() == {slow.metadata.uid}
    world.clock.advance(30)
    assert prepare() == frozenset()
    world.source.gate.set()
    eventually(lambda: world.calls == ["x"])
    (record,) = world.found()
    assert record.containers[0].problem == "cut off after 30 s"
    assert world.reports == [
        "vision/mnist: The log of pod mnist-worker-0 was not archived: tensorflow: cut off after 30 s"
    ]


def test_what_the_api_server_refuses_is_told_and_holds_nobody_up(world: World) -> None:
    world.source.errors["mnist-worker-0", "tensorflow", False] = api_error(500, message="no kubelet")
    world.save(pod(0, running(), running("sidecar")))
    (record,) = world.found()
    assert texts(record) == {"tensorflow": None, "sidecar": "mnist-worker-0 sidecar\n"}
    assert "no kubelet" in record.containers[0].problem
    (report,) = world.reports
    assert "mnist-worker-0 was not archived: tensorflow: " in report
    assert world.failures == 1


def test_a_pod_that_has_gone_is_nobodys_failure(world: World) -> None:
    world.source.errors["mnist-worker-0", "tensorflow", False] = api_error(404, "NotFound")
    world.save(pod())
    assert (world.found(), world.reports, world.failures) == ([], [], 0)


def test_a_node_that_has_gone_loses_a_log(world: World) -> None:
    error = api_error(404, "NotFound")
    assert isinstance(error, NotFoundError)
    details = StatusDetails(name="node-7", kind="pods")
    error.status = msgspec.structs.replace(error.status, details=details)
    world.source.errors["mnist-worker-0", "tensorflow", False] = error
    world.save(pod())
    assert (world.found(), world.failures) == ([], 1)


def test_a_connection_that_breaks_leaves_what_has_come(world: World) -> None:
    world.source.late_error = api_error(500, message="cut")
    world.save(pod())
    (record,) = world.found()
    assert texts(record) == {"tensorflow": "mnist-worker-0 tensorflow\n"}
    assert "cut" in record.containers[0].problem


def test_an_archive_that_can_not_be_written_is_told(world: World) -> None:
    world.root.write_text("no directory")
    world.save(pod())
    (report,) = world.reports
    assert "the archive can't be written: Not a directory" in report


def test_many_pods_are_archived_side_by_side_and_told_of_once(world: World) -> None:
    pods = [pod(number) for number in range(20)]
    assert world.save(*pods) == {one.metadata.uid for one in pods}
    assert len(world.found()) == 20
    assert world.calls == ["done"]


def test_of_a_log_that_is_too_long_the_end_is_kept(world: World) -> None:
    world.archive.close()
    world.archive = world.make(max_log_bytes=1000)
    world.source.texts["mnist-worker-0", "tensorflow", False] = [b"%04d\n" % number for number in range(1000)]
    world.save(pod())
    (record,) = world.found()
    (container,) = record.containers
    assert container.size <= 1010
    assert container.dropped + container.size == 5000
    text = read_archived(record, container)
    assert text is not None
    assert text.endswith("0999\n")
    assert read_archived(record, container, tail_lines=2) == "0998\n0999\n"


def test_who_stops_deletes_nothing_more(world: World) -> None:
    world.source.gate = threading.Event()
    slow = pod()
    world.archive.prepare(JOB, [slow], lambda: None)
    eventually(lambda: world.source.asked)
    world.archive.close()
    other = pod(1)
    assert world.archive.prepare(JOB, [other], lambda: None) == {other.metadata.uid}


def test_a_node_that_never_answers_does_not_hold_up_who_stops(tmp_path: Path) -> None:
    # It accepts connections, and that is all.
    with no_threads_left(), socket.create_server(("127.0.0.1", 0)) as server:
        config = ClusterConfig(server=f"http://127.0.0.1:{server.getsockname()[1]}")
        with Client(config) as client:
            archive = LogArchive(client, tmp_path, max_bytes=1 << 20, max_log_bytes=1 << 16, timeout=30.0)
            archive.prepare(JOB, [pod()], lambda: None)
            request, _ = server.accept()
            began = time.monotonic()
            archive.close(0.1)
            assert time.monotonic() - began < 10
        request.close()
        archive.close()


def test_files_are_readable_by_the_volumes_group_and_by_nobody_else(world: World) -> None:
    world.save(pod())
    (record,) = world.found()
    folder = Path(record.folder)
    assert folder.stat().st_mode & 0o777 == 0o750
    assert (folder / "tensorflow.log").stat().st_mode & 0o777 == 0o640


def test_a_directory_that_can_not_be_made_is_known_at_once(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        ensure_writable(tmp_path / "file" / "b")
