from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell
from tfoperator.logs.archive.layout import RECORD, ArchivedContainer, ArchivedPod, encode_record, job_folder

STALLED = "No progress for 600 s. Behind: worker-0."


def keep_stacks(world: ServedWorld, root: Path) -> Path:
    """Stacks of a pod of the job that is gone, in an archive; returns their file."""
    uid = world.job()["metadata"]["uid"]
    folder = root / job_folder(world.namespace, "mnist", uid) / "mnist-worker-0.12345678"
    folder.mkdir(parents=True)
    container = ArchivedContainer(name="tensorflow", stacks="tensorflow.stacks.txt")
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    kept = datetime(2026, 1, 1, tzinfo=UTC)
    record = ArchivedPod(
        world.namespace, "mnist", uid, "mnist-worker-0", "12345678-0", kept, labels, containers=(container,)
    )
    (folder / RECORD).write_bytes(encode_record(record))
    (folder / container.stacks).write_text("in wait_for_ever\n")
    return folder / container.stacks


@pytest.mark.parametrize("stacks", [False, True])
def test_a_job_that_failed_for_its_stall_says_so_once_and_where_its_stacks_are(
    tell: Tell, world: ServedWorld, tmp_path: Path, stacks: bool
) -> None:
    world.submit(Worker=1)
    world.becomes("Failed", message=STALLED, reason="ProgressDeadlineExceeded")
    root = tmp_path / "archive"
    root.mkdir()
    expected = ["The stacks of its threads are kept:", f"  worker-0: {keep_stacks(world, root)}", ""] if stacks else []
    lines = tell("report", "mnist", "--archive-dir", str(root), code=0).out.splitlines()
    assert lines[:2] == [f"TFJob {world.namespace}/mnist FAILED: {STALLED}", ""]
    assert lines[2 : 2 + len(expected)] == expected
    assert lines[2 + len(expected)], lines  # one empty line, not two
    assert "\n".join(lines).count(STALLED) == 1
