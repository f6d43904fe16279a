from pathlib import Path

import msgspec

from tests.unit.logs.archive.samples import JOB_UID, record
from tfoperator.logs.archive.layout import RECORD, ArchivedContainer, encode_record, job_folder
from tfoperator.ui.jobs.texts import archived_log, archived_runs


def test_every_run_that_has_a_log_is_listed_and_can_be_read(tmp_path: Path) -> None:
    """Also those before the last two: the archive has more than a kubelet."""
    first = ArchivedContainer("tensorflow", restarts=0, exit_code=1, log="tensorflow.0.log")
    before = {"previous_exit_code": 3, "previous_log": "tensorflow.previous.log"}
    container = ArchivedContainer("tensorflow", restarts=2, log="tensorflow.log", earlier=(first,), **before)
    pod = msgspec.structs.replace(record(uid="1"), containers=(container,))
    folder = tmp_path / job_folder(pod.namespace, pod.job, pod.job_uid) / f"{pod.pod}.{pod.pod_uid}"
    folder.mkdir(parents=True)
    (folder / RECORD).write_bytes(encode_record(pod))
    for name in ("tensorflow.0.log", "tensorflow.previous.log", "tensorflow.log", "secret"):
        (folder / name).write_text(f"{name}\n")
    rows = archived_runs(tmp_path, "vision", "mnist", JOB_UID)
    assert [(row["restarts"], row["exitCode"]) for row in rows] == [(0, 1), (1, 3), (2, None)]
    asked = [{"uid": JOB_UID, "pod": row["podUid"], "log": row["log"]} for row in rows]
    texts = [archived_log(tmp_path, "vision", "mnist", query, 10)["text"] for query in asked]
    assert texts == ["tensorflow.0.log\n", "tensorflow.previous.log\n", "tensorflow.log\n"]
    other = {"uid": JOB_UID, "pod": "1", "log": "secret"}
    assert archived_log(tmp_path, "vision", "mnist", other, 10) == {"text": None}
