import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hack.s3_server import BUCKET
from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tests.support.services import s3, s3_variables
from tests.support.threads import InThread, run_at_once
from tests.unit.logs.archive.samples import JOB, JOB_UID, Source, ended, pod, running, waiting
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.protocol.errors import NotFoundError, StatusDetails
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerState, ContainerStatus
from tfoperator.logs.archive.layout import ArchivedPod
from tfoperator.logs.archive.opening import open_place
from tfoperator.logs.archive.place import REPLACED, UNFINISHED
from tfoperator.logs.archive.pod_logs import ArchiveBounds
from tfoperator.logs.archive.reader import archived_pods, read_archived
from tfoperator.logs.archive.writer import LogArchive

__all__ = ["s3", "s3_variables"]

BOUNDS = ArchiveBounds(max_bytes=1 << 20, max_log_bytes=1 << 16, timeout=30.0)


def prepare(archive: LogArchive, pods: Sequence[Pod], done: Callable[[], object]) -> frozenset[str]:
    """Which of the pods have to wait; their logs are being kept from now on."""
    waiting = archive.unkept(pods)
    archive.keep(JOB, pods, done)
    return waiting


class World:
    """An archive with everything that it reports."""

    def __init__(self, root: Path | str) -> None:
        self.root = root
        self.clock = FakeClock()
        self.source = Source()
        self.reports: list[str] = []
        self.calls: list[str] = []
        self.sizes: list[int] = []
        self.news = 0
        self.failures = 0
        self.archive = self.make()

    def make(self, **options: Any) -> LogArchive:
        return LogArchive(
            self.source,
            open_place(self.root),
            options.pop("bounds", BOUNDS),
            report=lambda job, message: self.reports.append(f"{job.key}: {message}"),
            metrics=self,
            clock=self.clock,
            **options,
        )

    def archived(self, size: int, *, new: bool) -> None:
        self.sizes.append(size)
        self.news += new

    def archive_failed(self) -> None:
        self.failures += 1

    def save(self, *pods: Any) -> frozenset[str]:
        """Archive pods, and wait for the end of that."""
        before = len(self.calls)
        busy = prepare(self.archive, pods, lambda: self.calls.append("done"))
        if busy:
            eventually(lambda: len(self.calls) > before, what="the archive is done")
        return busy

    def take(self, given_pod: Pod, *, last: bool = False) -> bool:
        """Keep what has ended, as its watcher does."""
        return self.archive.wants(given_pod) and self.archive.take(JOB, given_pod, last=last)

    def records(self) -> list[ArchivedPod]:
        return archived_pods(self.root, "vision", "mnist", JOB_UID)

    def texts(self) -> dict[str, str | None]:
        """The logs of the only pod that the archive has."""
        (record,) = self.records()
        return texts(record)

    @contextmanager
    def fetching(self) -> Iterator[InThread]:
        """Inside, the log of a pod is being fetched, and does not come before `source.gate` is set."""
        self.source.gate = threading.Event()
        taking = InThread(lambda: self.take(pod()))
        eventually(lambda: self.source.asked)
        yield taking
        self.source.gate.set()
        taking.result()


in_directory = pytest.mark.parametrize("world", ["directory"], indirect=True)


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.full)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "bucket":
        request.getfixturevalue("s3")
    made = World(tmp_path / "archive" if request.param == "directory" else f"s3://{BUCKET}/{tmp_path.name}")
    yield made
    made.archive.close()


def texts(record: ArchivedPod) -> dict[str, str | None]:
    logs = {}
    for container in record.containers:
        logs[container.name] = read_archived(record, container)
        if container.previous_log:
            logs[f"{container.name} before"] = read_archived(
                record, msgspec.structs.replace(container, log=container.previous_log)
            )
    return logs


def test_the_logs_of_every_container_are_kept_and_what_the_pod_was(world: World) -> None:
    doomed = pod(0, running(restarts=2), running("side/../car"), init=[running("fetch")])
    assert world.save(doomed) == {doomed.metadata.uid}
    (record,) = world.records()
    assert texts(record) == {
        "fetch": "mnist-worker-0 fetch\n",
        "tensorflow": "mnist-worker-0 tensorflow\n",
        "tensorflow before": "mnist-worker-0 tensorflow before\n",
        "side/../car": "mnist-worker-0 side/../car\n",
    }
    assert (record.node, record.phase, record.job, record.pod_uid) == ("node-7", "Failed", "mnist", doomed.metadata.uid)
    assert "team" not in record.labels
    assert [container.restarts for container in record.containers] == [0, 2, 0]
    assert world.sizes == [sum(container.size for container in record.containers)]
    assert world.reports == []


@pytest.mark.parametrize("keep", [World.save, World.take], ids=["for its deletion", "at its end"])
def test_what_was_kept_holds_up_nothing_and_stays(world: World, keep: Callable[[World, Pod], object]) -> None:
    done = pod()
    assert keep(world, done)
    assert not world.archive.wants(done)
    assert world.save(done) == frozenset()
    assert len(world.source.asked) == 1
    assert (world.sizes, world.news) == ([len("mnist-worker-0 tensorflow\n")], 1)


def test_a_pod_that_was_left_alone_for_long_has_more_to_tell(world: World) -> None:
    doomed = pod(0, running())
    world.save(doomed)
    world.clock.advance(61)
    world.source.texts["mnist-worker-0", "tensorflow", False] = [b"new\n"]
    assert world.save(doomed) == {doomed.metadata.uid}
    assert world.texts() == {"tensorflow": "new\n"}


def test_pods_that_never_ran_wait_for_nothing_and_many_are_archived_side_by_side_and_told_of_once(world: World) -> None:
    assert world.save(pod(0, waiting())) == frozenset()
    assert world.source.asked == []
    pods = [pod(number) for number in range(20)]
    assert world.save(*pods) == {given_pod.metadata.uid for given_pod in pods}
    assert len(world.records()) == 20
    assert world.calls == ["done"]


def test_nobody_waits_longer_than_the_time_for_it(world: World) -> None:
    world.source.gate = threading.Event()
    slow = pod()
    for _ in range(2):
        assert prepare(world.archive, [slow], lambda: world.calls.append("x")) == {slow.metadata.uid}
        eventually(lambda: world.source.asked)
    world.clock.advance(30)
    assert prepare(world.archive, [slow], lambda: None) == frozenset()
    world.source.gate.set()
    eventually(lambda: world.calls == ["x"])
    (record,) = world.records()
    assert record.containers[0].problem == "the time limit of 30 s was over before the whole log was copied"
    late = "the time limit of 30 s was over before the whole log was copied"
    report = f"The log of pod mnist-worker-0 was not archived: tensorflow: {late}"
    assert world.reports == [f"vision/mnist: {report}"]


def test_what_the_api_server_refuses_is_told_and_holds_nobody_up(world: World) -> None:
    world.source.errors["mnist-worker-0", "tensorflow", False] = api_error(500, message="no kubelet")
    world.save(pod(0, running(), running("sidecar")))
    (record,) = world.records()
    assert texts(record) == {"tensorflow": None, "sidecar": "mnist-worker-0 sidecar\n"}
    assert "no kubelet" in record.containers[0].problem
    (report,) = world.reports
    assert "mnist-worker-0 was not archived: tensorflow: " in report
    assert world.failures == 1


@pytest.mark.parametrize(("details", "failures"), [(None, 0), (StatusDetails(name="node-7", kind="pods"), 1)])
def test_a_gone_node_loses_a_log_and_a_gone_pod_does_not(world: World, details: Any, failures: int) -> None:
    error = api_error(404, "NotFound")
    assert isinstance(error, NotFoundError)
    error.status = msgspec.structs.replace(error.status, details=details)
    world.source.errors["mnist-worker-0", "tensorflow", False] = error
    world.save(pod())
    assert (world.records(), len(world.reports), world.failures) == ([], failures, failures)


def test_a_connection_that_breaks_leaves_what_has_come(world: World) -> None:
    world.source.late_error = api_error(500, message="cut")
    world.save(pod())
    (record,) = world.records()
    assert texts(record) == {"tensorflow": "mnist-worker-0 tensorflow\n"}
    assert "cut" in record.containers[0].problem


def test_of_a_log_that_is_too_long_the_end_is_kept(world: World) -> None:
    world.archive.close()
    world.archive = world.make(bounds=msgspec.structs.replace(BOUNDS, max_log_bytes=1000))
    world.source.texts["mnist-worker-0", "tensorflow", False] = [b"%04d\n" % number for number in range(1000)]
    world.save(pod())
    (record,) = world.records()
    (container,) = record.containers
    assert container.size <= 1010
    assert container.dropped + container.size == 5000
    text = read_archived(record, container)
    assert text.endswith("0999\n")
    assert read_archived(record, container, tail_lines=2) == "0998\n0999\n"


def test_who_stops_deletes_nothing_more(world: World) -> None:
    world.source.gate = threading.Event()
    slow = pod()
    world.archive.keep(JOB, [slow], lambda: None)
    eventually(lambda: world.source.asked)
    world.archive.close()
    other = pod(1)
    assert prepare(world.archive, [other], lambda: None) == {other.metadata.uid}


def test_a_node_that_never_answers_does_not_hold_up_who_stops(tmp_path: Path) -> None:
    # It accepts connections, and that is all.
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = ClusterConfig(server=f"http://127.0.0.1:{server.getsockname()[1]}")
        with Client(config) as client:
            archive = LogArchive(client, open_place(tmp_path), BOUNDS)
            archive.keep(JOB, [pod()], lambda: None)
            request, _ = server.accept()
            run_at_once(lambda: archive.close(0.1))
        request.close()
        archive.close()


@in_directory
def test_files_are_readable_by_the_volumes_group_and_by_nobody_else(world: World) -> None:
    world.save(pod())
    (record,) = world.records()
    folder = Path(record.folder)
    assert folder.stat().st_mode & 0o777 == 0o750
    assert (folder / "tensorflow.log").stat().st_mode & 0o777 == 0o640


def test_a_directory_that_can_not_be_made_is_known_at_once(tmp_path: Path) -> None:
    open_place(tmp_path / "a" / "b").check()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        open_place(tmp_path / "file" / "b").check()


# When containers end.


def leaving(given_pod: Pod) -> Pod:
    meta = msgspec.structs.replace(given_pod.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    return msgspec.structs.replace(given_pod, metadata=meta)


def test_what_still_runs_is_kept_before_a_deletion_although_a_neighbour_was_kept_at_its_end(world: World) -> None:
    both = pod(0, running(), ContainerStatus(name="fetcher", state=ended(0)))
    assert world.take(both)
    assert world.source.asked == [("mnist-worker-0", "fetcher", False)]
    assert world.save(both) == {both.metadata.uid}
    assert world.source.asked[1:] == [("mnist-worker-0", "tensorflow", False)]
    assert world.texts() == {"tensorflow": "mnist-worker-0 tensorflow\n", "fetcher": "mnist-worker-0 fetcher\n"}
    assert world.news == 1


def test_another_process_finds_in_the_archive_what_it_has(world: World) -> None:
    world.take(pod(0, running(restarts=1)))
    world.archive.close()
    world.archive = world.make()
    assert world.archive.wants(pod(0, running(restarts=1)))
    assert world.take(pod(0, running(restarts=1)))
    world.archive.keep(JOB, [pod(1)], lambda: world.calls.append("done"))
    eventually(lambda: world.calls)
    assert world.source.asked == [("mnist-worker-0", "tensorflow", True), ("mnist-worker-1", "tensorflow", False)]


def test_the_log_of_a_run_becomes_the_previous_one_without_being_fetched_again(world: World) -> None:
    world.source.texts["mnist-worker-0", "tensorflow", True] = [b"first\n"]
    world.take(pod(0, running(restarts=1)))
    second = ContainerStatus(name="tensorflow", restart_count=1, state=ended(0), last_state=ended(1))
    world.source.texts["mnist-worker-0", "tensorflow", False] = [b"second\n"]
    world.take(pod(0, second))
    assert world.texts() == {"tensorflow": "second\n", "tensorflow before": "first\n"}
    (container,) = world.records()[0].containers
    assert (container.exit_code, container.previous_exit_code, container.size) == (0, 1, 13)
    assert world.source.asked == [("mnist-worker-0", "tensorflow", True), ("mnist-worker-0", "tensorflow", False)]


class Killed(BaseException):
    """The process has ended here."""


@in_directory
@pytest.mark.parametrize("error", [Killed(), OSError(5, "Input/output error")], ids=["killed", "failed"])
def test_earlier_runs_stay_if_the_new_folder_of_a_pod_does_not_come_to_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    rename = Path.rename

    def stopped(path: Path, target: Path) -> Path:
        if path.name.startswith(UNFINISHED) and not path.name.startswith(REPLACED):
            raise error
        return rename(path, target)

    def ended_again(restarts: int) -> Pod:
        world.source.texts["mnist-worker-0", "tensorflow", True] = [b"run %d\n" % (restarts - 1)]
        return pod(0, running(restarts=restarts))

    assert world.take(ended_again(1))
    assert world.take(ended_again(2))
    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Path, "rename", stopped)
        assert not world.take(ended_again(3))
    world.archive.close()
    world.archive = world.make()
    assert world.take(ended_again(3))
    (record,) = world.records()
    kept = [read_archived(record, run) for run in record.containers[0].runs]
    assert kept == ["run 0\n", "run 1\n", "run 2\n"]
    assert [folder.name for folder in Path(record.folder).parent.iterdir()] == [Path(record.folder).name]


@in_directory
def test_earlier_runs_of_a_pod_stay_the_last_twenty_in_all(world: World) -> None:
    """A kubelet has the last two logs only."""
    for number in range(24):
        world.source.texts["mnist-worker-0", "tensorflow", False] = [b"run %d\n" % number]
        waits = waiting(reason="CrashLoopBackOff").state
        world.take(pod(0, ContainerStatus("tensorflow", restart_count=number, state=waits, last_state=ended(130))))
    world.archive.keep_stacks(JOB, pod(0, running(restarts=23)), "tensorflow", "of threads")
    (record,) = world.records()
    (container,) = record.containers
    assert [read_archived(record, run) for run in container.runs] == [f"run {n}\n" for n in range(5, 24)]
    assert [(run.restarts, run.exit_code) for run in container.runs] == [(n, 130) for n in range(5, 24)]
    assert container.size == sum(len(f"run {n}\n") for n in range(5, 24))
    kept = {path.name for path in Path(record.folder).iterdir()}
    assert len(kept) == 19 + len({"pod.json", "tensorflow.stacks.txt"})


def test_a_pod_on_its_way_out_is_kept_at_once_and_again_when_it_has_ended(world: World) -> None:
    world.source.texts["mnist-worker-0", "tensorflow", False] = [b"so far\n"]
    assert world.take(leaving(pod(0, running())))
    assert not world.archive.wants(leaving(pod(0, running())))
    world.source.texts["mnist-worker-0", "tensorflow", False] = [b"so far\n", b"the end\n"]
    assert world.take(leaving(pod()))
    (record,) = world.records()
    assert texts(record) == {"tensorflow": "so far\nthe end\n"}
    assert record.containers[0].exit_code == 137


@pytest.mark.parametrize(
    ("error", "taken", "problem"),
    [
        (api_error(500, message="no kubelet"), False, "no kubelet"),
        (api_error(404, "NotFound"), True, "the pod was gone before the whole log was copied"),
    ],
)
def test_what_a_pod_had_said_stays_without_its_end(world: World, error: Exception, taken: bool, problem: str) -> None:
    world.take(leaving(pod(0, running())))
    world.source.errors["mnist-worker-0", "tensorflow", False] = error
    assert world.take(leaving(pod())) is taken
    (record,) = world.records()
    assert texts(record) == {"tensorflow": "mnist-worker-0 tensorflow\n"}
    assert problem in record.containers[0].problem
    assert (world.reports, world.failures) == ([], 0)


def test_a_failure_is_told_after_the_last_try_only_and_then_left_to_the_deletion(world: World) -> None:
    world.source.errors["mnist-worker-0", "tensorflow", False] = api_error(500, message="no kubelet")
    assert not world.take(pod())
    assert world.reports == []
    assert world.archive.take(JOB, pod(), last=True)
    assert (len(world.reports), world.failures) == (1, 1)
    assert not world.archive.wants(pod())
    del world.source.errors["mnist-worker-0", "tensorflow", False]
    assert world.save(pod()) == {pod().metadata.uid}
    assert len(world.records()) == 1
    world.source.errors["mnist-worker-1", "tensorflow", False] = api_error(400, "BadRequest", "no such container")
    assert world.take(pod(1)), "what can never be had is not tried again"
    assert len(world.reports) == 2


@in_directory
def test_an_archive_that_can_not_be_written_is_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert isinstance(world.root, Path)
    world.root.write_text("no directory")
    assert [world.take(pod(), last=last) for last in (False, False, True, True)] == [False] * 4
    assert world.failures == len(world.reports) == 1
    world.save(pod(1))
    assert ["the archive can't be written: Not a directory" in report for report in world.reports] == [True] * 2
    world.root.unlink()
    assert world.take(pod(), last=True)
    assert (len(world.records()), len(world.reports)) == (1, 2)
    messages = [record.getMessage() for record in caplog.records if "mnist" not in record.getMessage()]
    write_messages = [message for message in messages if "written" in message]
    assert [("can't be written" in message, "written again" in message) for message in write_messages] == [
        (True, False),
        (False, True),
    ]


def test_a_deletion_waits_for_the_log_that_is_being_fetched_instead_of_fetching_it_again(world: World) -> None:
    with world.fetching():
        assert prepare(world.archive, [pod()], lambda: world.calls.append("done")) == {pod().metadata.uid}
        world.clock.wait_for_waiters(1)
    eventually(lambda: world.calls == ["done"])
    assert len(world.source.asked) == 1
    assert len(world.records()) == 1


def test_a_deletion_does_not_wait_longer_because_the_log_is_being_fetched(world: World) -> None:
    with world.fetching():
        prepare(world.archive, [pod()], lambda: world.calls.append("done"))
        world.clock.wait_for_waiters(1)
        world.clock.advance(30)
        assert world.archive.unkept([pod()]) == frozenset()
        eventually(lambda: world.calls == ["done"])


@pytest.mark.parametrize(
    ("now", "done"),
    [(None, True), (pod(0, ContainerStatus(name="tensorflow", restart_count=5, state=ContainerState())), False)],
    ids=["a pod of the same name", "the next run"],
)
def test_the_log_of_what_followed_is_not_taken_for_an_earlier_one(world: World, now: Pod | None, done: bool) -> None:
    world.archive.close()
    world.archive = world.make(pod_now=lambda _: now)
    assert world.take(pod()) is done
    assert (world.records(), world.reports) == ([], [])
    assert not (done and world.archive._known_runs)


def test_a_log_that_the_stop_of_the_operator_cut_does_not_count_as_kept(world: World) -> None:
    with world.fetching() as taking:
        world.archive.close()
        taking.result()
    assert (world.records(), world.reports) == ([], [])
    world.archive = world.make()
    assert world.take(pod())
    assert len(world.records()) == 1


def test_the_archive_forgets_those_first_that_ended_first_and_pods_that_have_gone(world: World) -> None:
    done = pod(0, ContainerStatus("tensorflow", state=ended(0, datetime(2025, 12, 31, tzinfo=UTC))))
    world.take(done)
    [(time, _, _)] = open_place(world.root).found()
    assert time == datetime(2025, 12, 31, tzinfo=UTC).timestamp()
    assert len(world.archive._known_runs) == 1
    world.archive.forget(done)
    assert world.archive._known_runs == {}
