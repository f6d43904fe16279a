import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tfoperator.kube.views.pod_spec import Container, ExitCodes, RestartRule
from tfoperator.local.node.container_record import (
    DEFAULT_PATH,
    ContainerRecord,
    RunningContainer,
    TerminationMessage,
    backoff,
    restarts_after,
)


def test_backoff_doubles_up_to_five_minutes() -> None:
    assert [backoff(number) for number in (1, 2, 3, 4, 5, 40)] == [0, 1, 2, 4, 8, 300]


def rule(operator: str, *codes: int) -> RestartRule:
    return RestartRule("Restart", ExitCodes(operator, codes))


@pytest.mark.parametrize(
    ("pod", "own", "rules", "restarted"),
    [
        ("Always", "", (), {0, 3, 130}),
        ("OnFailure", "", (), {3, 130}),
        ("Never", "", (), set()),
        ("Always", "Never", (), set()),
        ("Never", "OnFailure", (), {3, 130}),
        ("Never", "Never", (rule("NotIn", *range(128)),), {130}),
        ("Never", "Never", (rule("In", 3), rule("In", 0)), {0, 3}),
        ("Always", "OnFailure", (rule("In", 0),), {0, 3, 130}),
        # Without a policy of the container a kubelet does not look at its rules.
        ("Never", "", (rule("In", 3),), set()),
        ("Never", "Never", (RestartRule("Restart"),), set()),
    ],
)
def test_a_containers_rules_go_before_its_policy_and_that_before_the_pods(
    pod: str, own: str, rules: tuple[RestartRule, ...], restarted: set[int]
) -> None:
    spec = Container(name="c", restart_policy=own, restart_policy_rules=rules)
    assert {code for code in (0, 3, 130) if restarts_after(spec, pod, code)} == restarted


def container(path: str = DEFAULT_PATH, policy: str = "File") -> Container:
    return Container(name="c", termination_message_path=path, termination_message_policy=policy)


def test_a_message_is_what_this_attempt_wrote_to_its_mount_or_the_machines_own_file_and_the_end_of_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "messages" / "c-0"
    first = TerminationMessage.mounted(container(), file)
    assert (first.mount.source, first.mount.mount_path) == (file, DEFAULT_PATH)
    assert file.stat().st_mode & 0o777 == 0o666
    assert first.read(0, None) == ""
    file.write_text("a" * 10 + "b" * 4096)
    assert first.read(0, None) == "b" * 4096
    assert TerminationMessage.mounted(container(), file).read(0, None) == ""
    file = tmp_path / "message"
    file.write_text("somebody else's")
    message = TerminationMessage.on_this_machine(container(str(file)), ())
    assert message.mount is None
    assert message.read(0, None) == ""
    file.write_text("mine, and longer than that")
    assert message.read(0, None) == "mine, and longer than that"
    assert TerminationMessage.on_this_machine(container(), ()).read(0, None) == ""


def test_what_is_no_file_says_so_and_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    for number, make in enumerate((lambda f: f.symlink_to(secret), os.mkfifo, Path.mkdir)):
        file = tmp_path / f"m{number}"
        message = TerminationMessage.on_this_machine(container(str(file)), ())
        make(file)
        text = message.read(0, None)
        assert text.startswith("Error on reading termination log")
        assert "password" not in text


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [("File", 1, ""), ("FallbackToLogsOnError", 0, ""), ("FallbackToLogsOnError", 1, "line\n" * 80)],
)
def test_the_end_of_the_log_may_stand_for_a_message(tmp_path: Path, policy: str, code: int, expected: str) -> None:
    log = tmp_path / "log"
    log.write_text("line\n" * 200)
    message = TerminationMessage.mounted(container(policy=policy), tmp_path / "m" / "c-0")
    assert message.read(code, log) == expected


def test_a_running_container_is_one_value_so_that_another_thread_sees_the_process_and_the_log_of_one_attempt() -> None:
    record, now = ContainerRecord(Container(name="c")), datetime(2026, 1, 1, tzinfo=UTC)
    logs, processes = [Mock(), Mock()], [Mock(), Mock()]
    running: list[Any] = [record.running]
    for log, process in zip(logs, processes, strict=True):
        record.begin(log)
        running.append(record.running)  # a process of the attempt before would be stopped by now
        record.run(process, now, 0.0)
        running.append(record.running)
        record.end(1, now)
        running.append(record.running)
    first, second = map(RunningContainer, processes, logs)
    assert running == [None, None, first, None, None, second, None]
