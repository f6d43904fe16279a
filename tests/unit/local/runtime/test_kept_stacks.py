import os
from pathlib import Path

import pytest

from tfoperator.local.runtime.log_files import LogFile


def test_stacks_are_added_to_a_file_beside_the_log_that_only_this_user_reads_and_without_any_there_is_a_reason(
    tmp_path: Path,
) -> None:
    log = LogFile(tmp_path / "0.log")
    for number, text in enumerate(("first\n", "second\n")):
        log.keep_stacks(f"12:0{number}", text)
    kept = tmp_path / "0.stacks.txt"
    assert kept.read_text() == "Stacks at 12:00\nfirst\n\nStacks at 12:01\nsecond\n\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    log = LogFile(tmp_path / "0.log")
    assert (log.stacks, log.no_stacks) == ("", "")
    log.keep_stacks("12:00", "No stacks: install py-spy.\n")
    assert (log.stacks, log.no_stacks) == ("", "install py-spy.")
    log.keep_stacks("12:01", "Process 7:\nmain\n")
    log.keep_stacks("12:02", "No stacks: the process has ended.\n")
    assert (log.stacks, log.no_stacks) == (str(tmp_path / "0.stacks.txt"), "")


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.symlink(victim, tmp_path / "0.stacks.txt")
    log = LogFile(tmp_path / "0.log")
    log.keep_stacks("now", "text")
    assert victim.read_text() == "mine"
    assert "can't keep the stacks" in caplog.text
    assert log.stacks == ""
