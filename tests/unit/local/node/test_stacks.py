from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfoperator.local.node.stacks import keep_stacks, kept_stacks, stacks_file


def test_stacks_are_added_to_a_file_beside_the_log_that_only_this_user_reads(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    for number, text in enumerate(("first\n", "second\n")):
        keep_stacks(log, f"12:0{number}", text)
    kept = tmp_path / "0.stacks.txt"
    assert stacks_file(log) == kept
    assert kept.read_text() == "Stacks at 12:00\nfirst\n\nStacks at 12:01\nsecond\n\n"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_file_without_stacks_is_a_reason_and_not_a_place(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    assert kept_stacks(log) == ("", "")
    keep_stacks(log, "12:00", "No stacks: install py-spy.\n")
    assert kept_stacks(log) == ("", "install py-spy.")
    keep_stacks(log, "12:01", "Process 7:\nmain\n")
    keep_stacks(log, "12:02", "No stacks: it has ended.\n")
    assert kept_stacks(log) == (str(stacks_file(log)), "")


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.symlink(victim, tmp_path / "0.stacks.txt")
    keep_stacks(tmp_path / "0.log", "now", "text")
    assert victim.read_text() == "mine"
    assert "can't keep stacks" in caplog.text
