from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tfoperator.api.v1.types import TensorBoard, TFJob, TFJobSpec
from tfoperator.kube.objects import ObjectMeta
from tfoperator.local.run.tensorboard_logs import tensorboard_log_dir
from tfoperator.local.runtime.mounts import Mount, real_path

MOUNT = {"name": "logs", "mountPath": "/logs"}


def job(board: dict[str, Any] | None) -> TFJob:
    spec = TFJobSpec(tensor_board=None if board is None else msgspec.convert(board, TensorBoard))
    return TFJob(metadata=ObjectMeta(name="mnist", namespace="ns"), spec=spec)


def test_a_claim_is_a_folder_of_the_run_directory(tmp_path: Path) -> None:
    claim = {"name": "logs", "persistentVolumeClaim": {"claimName": "boards"}}
    board = {"logDir": "/logs/a", "volumes": [claim], "volumeMounts": [MOUNT | {"subPath": "x"}]}
    assert tensorboard_log_dir(job(board), tmp_path) == ""
    folder = tmp_path / "volumes/claims/ns/boards/x/a"
    folder.mkdir(parents=True)
    assert tensorboard_log_dir(job(board), tmp_path) == str(folder)


def test_a_host_path_is_where_it_says(tmp_path: Path) -> None:
    volume = {"name": "logs", "hostPath": {"path": str(tmp_path)}}
    board = {"logDir": "/logs", "volumes": [volume], "volumeMounts": [MOUNT]}
    assert tensorboard_log_dir(job(board), tmp_path / "run") == str(tmp_path)


def test_only_what_is_mounted_outlives_a_container(tmp_path: Path) -> None:
    volume = {"name": "logs", "hostPath": {"path": str(tmp_path)}}
    board = {"volumes": [volume], "volumeMounts": [MOUNT]}
    found = [
        tensorboard_log_dir(job({"logDir": path, **board}), tmp_path / "run", in_container=True)
        for path in ("/logs", "/tmp", "gs://bucket/x")
    ]
    assert found == [str(tmp_path), "", "gs://bucket/x"]


@pytest.mark.parametrize(
    ("board", "expected"),
    [
        (None, ""),
        ({"logDir": "gs://bucket/logs"}, "gs://bucket/logs"),
        ({"logDir": "/logs", "volumes": [{"name": "logs", "emptyDir": {}}], "volumeMounts": [MOUNT]}, ""),
    ],
)
def test_what_needs_no_folder_or_has_none_any_more(board: dict[str, Any] | None, expected: str, tmp_path: Path) -> None:
    assert tensorboard_log_dir(job(board), tmp_path) == expected


def test_a_path_lies_in_the_innermost_mount_above_it() -> None:
    mounts = [Mount("a", Path("/1"), "/logs"), Mount("b", Path("/2"), "/logs/deep/"), Mount("c", Path("/3"), "/lo")]
    assert real_path("/logs", mounts) == "/1"
    assert real_path("/logs/x/y", mounts) == "/1/x/y"
    assert real_path("/logs/deep/x", mounts) == "/2/x"
    assert real_path("/logs2", mounts) == "/logs2"
    assert real_path("relative", mounts) == "relative"
    assert real_path("gs://logs", mounts) == "gs://logs"
