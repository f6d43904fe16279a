import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.launcher import Artifact, LocalOutputStore
from tfoperator.launcher.core.output import ContainerEnd, judge, read_output
from tfoperator.launcher.core.output_document import (
    MAX_OUTPUT_BYTES,
    ErrorStatus,
    MalformedOutput,
    Output,
    parse_output,
    parse_report,
)

PERMANENT = Output(ErrorStatus("PERMANENT_ERROR", "bad data"))
RETRYABLE = Output(ErrorStatus("RETRYABLE_ERROR", "busy"))
LOST = ContainerEnd(lost=True, message="gone")
TIMED_OUT = ContainerEnd(timed_out=True, message="too long")


def test_everything_in_it_is_optional_and_a_failure_without_an_exit_code_is_told_in_its_own_words() -> None:
    assert parse_output(b"{}") == Output()
    full = parse_output(
        b'{"error_status": {"code": "RETRYABLE_ERROR", "message": "busy"}, "more": 1, "exec_properties": {"n": 3},'
        b' "outputs": {"a": {"uri": "/a"}, "b": [{"uri": "/b", "properties": {"rows": 7}}, {"uri": "/c"}]}}'
    )
    assert full.error_status == RETRYABLE.error_status
    assert full.exec_properties == {"n": 3}
    assert full.artifacts() == {"a": (Artifact("/a"),), "b": (Artifact("/b", {"rows": 7}), Artifact("/c"))}
    assert judge(ContainerEnd(0), parse_output(b'{"error_status": {"message": "bad data"}}')).state == "failed"
    assert judge(ContainerEnd(None, "Worker-0: exited with code 3"), None).message == "Worker-0: exited with code 3"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "can't be read"),
        (b'{"outputs": ', "can't be read"),
        (b"[]", "array"),
        (b"\xff\xfe", "can't be read"),
        (b'{"error_status": {"code": "ERROR"}}', "ERROR.*error_status.code"),
        (b'{"error_status": {"code": null}}', "code"),
        (b'{"outputs": {"a": 1}}', "outputs"),
        (b'{"outputs": {"stranger": {"uri": "/x"}}}', "stranger"),
        (b"[" * 100_000, "can't be read"),
        (b" " * (MAX_OUTPUT_BYTES + 1), "larger"),
    ],
)
def test_a_document_that_can_not_be_used_says_why(data: bytes, words: str) -> None:
    with pytest.raises(MalformedOutput, match=words):
        parse_output(data, frozenset({"a"}))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(MalformedOutput):
        assert isinstance(parse_output(data), Output)


@pytest.mark.parametrize(
    ("end", "output", "state", "words"),
    [
        (ContainerEnd(0), None, "succeeded", ""),
        (ContainerEnd(0), Output(), "succeeded", ""),
        (ContainerEnd(0), PERMANENT, "failed", "bad data"),
        (ContainerEnd(0), RETRYABLE, "retryable", "busy"),
        (ContainerEnd(0), MalformedOutput("line 1"), "failed", "line 1"),
        (ContainerEnd(1), None, "failed", "exit code 1"),
        (ContainerEnd(137, "OOMKilled"), None, "failed", "137: OOMKilled"),
        (ContainerEnd(1), Output(), "failed", "exit code 1"),
        (ContainerEnd(1), RETRYABLE, "retryable", "busy"),
        (ContainerEnd(None), None, "failed", "its exit code is unknown"),
        (LOST, None, "retryable", "gone"),
        (LOST, Output(), "succeeded", ""),
        (LOST, PERMANENT, "failed", "bad data"),
        (LOST, MalformedOutput("cut off"), "retryable", "gone"),
        (TIMED_OUT, None, "failed", "too long"),
        (TIMED_OUT, Output(), "succeeded", ""),
        (TIMED_OUT, RETRYABLE, "retryable", "busy"),
        (TIMED_OUT, MalformedOutput("cut off"), "failed", "cut off"),
    ],
)
def test_only_three_things_are_worth_another_try(end: ContainerEnd, output: Any, state: str, words: str) -> None:
    verdict = judge(end, output)
    assert verdict.state == state
    assert words in verdict.message


def test_what_an_earlier_try_has_left_is_cleared_and_a_new_directory_is_for_every_user(tmp_path: Path) -> None:
    store, place = LocalOutputStore(), tmp_path / "deep" / "tmp"
    store.clear(str(place))
    assert store.read(str(place)) is None
    (place / "output.json").write_text("{}")
    assert store.read(str(place)) == b"{}"
    store.clear(str(place))
    assert store.read(str(place)) is None
    assert (place.stat().st_mode & 0o7777, place.parent.stat().st_mode & 0o022) == (0o1777, 0)
    assert store.read(str(tmp_path / "nowhere")) is None


def test_what_is_no_regular_file_is_neither_followed_nor_waited_for_and_no_more_is_read_than_can_be_used(
    tmp_path: Path,
) -> None:
    store, output = LocalOutputStore(), tmp_path / "output.json"
    secret = tmp_path / "secret"
    secret.write_text("{}")
    for make in (lambda: output.symlink_to(secret), lambda: os.mkfifo(output), output.mkdir):
        make()
        with pytest.raises(MalformedOutput):
            store.read(str(tmp_path))
        store.clear(str(tmp_path))
        assert not output.exists()
    assert secret.exists()
    with (tmp_path / "output.json").open("wb") as stream:
        stream.truncate(MAX_OUTPUT_BYTES * 4)
    assert len(LocalOutputStore().read(str(tmp_path)) or b"") == MAX_OUTPUT_BYTES + 1


def test_of_a_program_s_outputs_only_what_lies_in_its_own_folder_would_be_copied(tmp_path: Path) -> None:
    place, planned = tmp_path / "tmp", {"model": [Artifact("s3://bucket/root/model")]}
    (tmp_path / "secret").write_text("of the launcher")
    place.mkdir()
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "loop").symlink_to(place / "loop")
    os.mkfifo(place / "pipe")

    def output_with(uri: object, end: ContainerEnd | None = None, **more: object) -> object:
        (place / "output.json").write_text(json.dumps({"outputs": {"model": {"uri": uri}}, **more}))
        return read_output(LocalOutputStore(), str(place), planned, end)

    for name in ("link", "loop", "pipe", "none", "../secret", "link/x"):
        for uri in (f"{place}/{name}", f"file://{place}/{name}"):
            assert isinstance(output_with(uri), MalformedOutput), uri
    failed = {"error_status": {"code": "PERMANENT_ERROR"}}
    kept = [
        output_with(f"{tmp_path}/secret"),
        output_with("s3://other/x"),
        output_with(f"{place}/link", ContainerEnd(1)),
    ]
    for output in [*kept, output_with(f"{place}/link", **failed)]:
        assert isinstance(output, Output)
    assert isinstance(kept[0], Output)
    assert kept[0].artifacts() == {"model": (Artifact(f"{tmp_path}/secret"),)}


KILLED_BEFORE_CHMOD = """
import os, signal, sys
from pathlib import Path
from tfoperator.launcher import LocalOutputStore
def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
os.chmod = Path.chmod = kill
LocalOutputStore().clear(sys.argv[1])
"""


def test_a_killed_launcher_leaves_no_directory_that_others_cannot_write_to(tmp_path: Path) -> None:
    place = tmp_path / "work" / "tmp"
    done = subprocess.run([sys.executable, "-c", KILLED_BEFORE_CHMOD, str(place)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    LocalOutputStore().clear(str(place))
    assert place.stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.chmod(mode)
    (mine / "output.json").write_text("{}")
    LocalOutputStore().clear(str(mine))
    assert mine.stat().st_mode & 0o7777 == mode
    assert list(mine.iterdir()) == []


def test_a_report_of_a_program_before_the_task_that_is_no_report_names_the_file() -> None:
    with pytest.raises(MalformedOutput, match=r"^output\.json can't be read: "):
        parse_report({"parameterValues": []})
