from pathlib import Path

import pytest

from tests.unit.logs.archive.samples import JOB_UID, record
from tfoperator.logs.archive.layout import RECORD, ArchivedPod, encode_record, job_folder
from tfoperator.logs.archive.reader import archived_pods, read_archived


def keep(root: Path, pod: ArchivedPod, text: str = "") -> None:
    folder = root / job_folder(pod.namespace, pod.job, pod.job_uid) / f"{pod.pod}.{pod.pod_uid}"
    folder.mkdir(parents=True)
    (folder / "tensorflow.log").write_text(text)
    (folder / RECORD).write_bytes(encode_record(pod))


def test_pods_come_oldest_first_and_strangers_in_the_directory_do_no_harm(tmp_path: Path) -> None:
    for minute in (3, 1, 2):
        keep(tmp_path, record(uid=str(minute), minute=minute))
    folder = tmp_path / job_folder("vision", "mnist", JOB_UID)
    (folder / "file").write_text("")
    (folder / "broken").mkdir()
    (folder / "broken" / RECORD).write_text("{")
    assert [pod.pod_uid for pod in archived_pods(tmp_path, "vision", "mnist", JOB_UID)] == ["1", "2", "3"]


def test_by_its_name_alone_it_is_the_latest_job(tmp_path: Path) -> None:
    assert archived_pods(tmp_path, "vision", "mnist") == archived_pods(tmp_path, "vision", "mnist", JOB_UID) == []
    keep(tmp_path, record(uid="old", minute=1, job_uid="first"))
    keep(tmp_path, record(uid="new", minute=2, job_uid="second"))
    assert [pod.pod_uid for pod in archived_pods(tmp_path, "vision", "mnist")] == ["new"]
    assert [pod.pod_uid for pod in archived_pods(tmp_path, "vision", "mnist", "first")] == ["old"]
    with pytest.raises(FileNotFoundError):
        archived_pods(tmp_path / "nowhere", "vision", "mnist")


def test_a_log_that_was_removed_meanwhile_is_none_and_no_name_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    keep(tmp_path, record(uid="1"), "text\n")
    (pod,) = archived_pods(tmp_path, "vision", "mnist")
    (container,) = pod.containers
    assert read_archived(pod, container) == "text\n"
    assert read_archived(pod, type(container)(name="tensorflow")) is None
    evil = type(container)(name="tensorflow", log="../../../secret")
    assert read_archived(pod, evil) is None
    (Path(pod.folder) / "tensorflow.log").unlink()
    assert read_archived(pod, container) is None
