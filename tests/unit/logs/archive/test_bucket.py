"""Special cases of an archive on an S3 server; the tests of the writer and of stacks use both kinds of archives."""

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from hack.s3_server import BUCKET
from tests.support.clock import FakeClock
from tests.support.services import s3, s3_variables
from tests.unit.logs.archive.samples import JOB, ended, pod, running
from tests.unit.logs.archive.test_writer import BOUNDS, World
from tfoperator.kube.views.pod_status import ContainerStatus
from tfoperator.logs.archive.bucket import Bucket
from tfoperator.logs.archive.layout import RECORD, encode_record, pod_folder, pod_record
from tfoperator.logs.archive.opening import open_place
from tfoperator.logs.archive.reader import archived_pods, read_archived
from tfoperator.logs.archive.retention import Retention
from tfoperator.object_store import ObjectChanged, Objects, ObjectStoreError

__all__ = ["s3", "s3_variables"]

TARGET = pod_folder(JOB, pod().metadata)


@pytest.fixture
def url(s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return f"s3://{BUCKET}/{tmp_path.name}/logs"


@pytest.fixture
def world(url: str) -> Iterator[World]:
    made = World(url)
    yield made
    made.archive.close()


def restarted(number: int) -> ContainerStatus:
    now, before = (ended(0, datetime(2026, 1, 1, hour, tzinfo=UTC)) for hour in (number, max(0, number - 1)))
    return ContainerStatus("tensorflow", restart_count=number, state=now, last_state=before if number else None)


@pytest.mark.full
def test_a_log_is_written_once_and_what_no_run_has_any_more_goes(world: World) -> None:
    for number in range(21):
        world.source.texts["mnist-worker-0", "tensorflow", False] = [b"run %d\n" % number]
        world.take(pod(0, restarted(number)))
    assert world.texts() == {"tensorflow": "run 20\n", "tensorflow before": "run 19\n"}
    assert len(world.source.asked) == 21
    names = [obj.key for obj in Objects(str(world.root)).below(TARGET.as_posix()).all()]
    assert (len(names), names[0]) == (21, RECORD)  # of 20 runs


@pytest.mark.full
def test_what_a_killed_writer_left_is_not_read_nor_lost_nor_kept_twice(world: World, url: str, tmp_path: Path) -> None:
    killed = Bucket(url)
    log = killed.root / "tensorflow.log"
    log.write_text("mnist-worker-0 tens")
    killed.store(TARGET, log, datetime(2026, 1, 1, tzinfo=UTC))  # and then it is killed, before the record
    assert [size for _, size, _ in open_place(url).found()] == [len("mnist-worker-0 tens")]
    log.write_text("the next one")
    assert world.records() == []
    assert world.take(pod())
    assert world.texts() == {"tensorflow": "mnist-worker-0 tensorflow\n"}
    assert len(list(Objects(url).all())) == 2  # what it left has gone
    assert len(list(tmp_path.glob("tfoperator-log-archive-*"))) == 2
    del killed._scratch  # the kernel gives up its lock, as at its end
    Bucket(url).remove(TARGET)
    assert list(Objects(url).all()) == []


def test_files_of_a_killed_process_are_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = Path(tempfile.mkdtemp(prefix="tfoperator-log-archive-"))
    (dead / "tensorflow.log").write_text("x")
    bucket, other = Bucket("s3://any/1"), Bucket("s3://any/2")
    roots = {bucket.root, other.root}
    assert set(tmp_path.iterdir()) == roots
    bucket.close()
    other.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_writer_that_was_stopped_for_a_while_overwrites_no_record_of_its_successor(world: World, url: str) -> None:
    stopped = open_place(url)
    old = stopped.record(TARGET)
    folder = stopped.root
    (folder / RECORD).write_bytes(encode_record(pod_record(JOB, pod(), world.clock.now(), ())))
    world.take(pod())
    with pytest.raises(ObjectChanged):
        stopped.replace(TARGET, folder, world.clock.now(), old)
    assert world.texts() == {"tensorflow": "mnist-worker-0 tensorflow\n"}
    stopped.close()


@pytest.mark.full
def test_the_oldest_pods_of_the_largest_namespace_go_and_others_objects_stay(url: str) -> None:
    clock, place = FakeClock(), open_place(url)
    Objects(url).put("README", b"not of an archive" * 100)

    def add(retention: Retention, namespace: str, number: int, size: int) -> None:
        target = PurePosixPath(namespace, "job", str(number))
        folder = retention.new_folder(target)
        (folder / "c.log").write_bytes(b"x" * size)
        assert retention.claim(folder, size)
        when = clock.now() - timedelta(hours=10 - number)
        name = place.store(target, folder / "c.log", when)
        record = pod_record(JOB, pod(), when, ())
        (folder / RECORD).write_bytes(
            encode_record(record).replace(b"{", b'{"containers": [{"name": "c", "log": "%b"}],' % name.encode(), 1)
        )
        retention.add(folder, target, when)

    retention = Retention(place, 10_000, clock=clock)
    add(retention, "quiet", 0, 1000)
    for number in range(1, 9):
        retention = retention if number % 3 else Retention(place, 10_000, clock=clock)  # another leader measures anew
        add(retention, "loud", number, 2000)
    kept = {folder.as_posix(): size for _, size, folder in place.found()}
    assert sum(kept.values()) <= 10_000
    assert ("quiet/job/0" in kept, "loud/job/8" in kept, "loud/job/1" in kept) == (True, True, False)
    assert Objects(url).find("README") is not None
    place.close()


@pytest.mark.full
def test_the_last_lines_of_a_long_log_come_without_the_rest(world: World) -> None:
    line = b"x" * 999 + b"\n"
    world.archive.close()
    bounds = type(BOUNDS)(max_bytes=1 << 24, max_log_bytes=1 << 23, timeout=30.0)
    world.archive = world.make(bounds=bounds)
    world.source.texts["mnist-worker-0", "tensorflow", False] = [line * 3000]
    world.take(pod())
    [record] = world.records()
    [container] = record.containers
    for lines in (0, 1, 10, 1500, 2999, 3000, 5000):
        text = read_archived(record, container, tail_lines=lines)
        assert text == line.decode() * min(lines, 3000)


def test_a_store_that_is_away_costs_no_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    variables = {"ENDPOINT_URL": "http://127.0.0.1:1", "ACCESS_KEY_ID": "known", "SECRET_ACCESS_KEY": "SECRET"}
    for name, value in variables.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    open_place("s3://away/logs").check()
    world = World("s3://away/logs")
    for last in (False, True, True):
        assert not world.take(pod(), last=last)
    assert world.source.asked == []
    assert len(world.reports) == 1
    assert "the archive can't be written: s3://away/logs: " in world.reports[0]
    world.archive.keep(JOB, [pod(1, running())], lambda: world.calls.append("done"))
    world.archive.close(30.0)
    assert world.calls == ["done"]  # its deletion goes on
    assert caplog.text.count("the operator will keep the logs of the pods that exist then") == 1
    assert "SECRET" not in caplog.text + str(world.reports)
    with pytest.raises(ObjectStoreError):
        archived_pods("s3://away/logs", "vision", "mnist")
