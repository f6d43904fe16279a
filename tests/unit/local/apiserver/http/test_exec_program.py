import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from tfoperator.local.apiserver.http.exec_program import ExecProgram


@pytest.mark.parametrize(("has_group", "killed_alone"), [(True, 0), (False, 1)])
def test_only_a_process_without_a_group_is_killed_by_asyncio(has_group: bool, killed_alone: int) -> None:
    """`kill` of asyncio may take the exit status of a process that has ended, which asyncio then reports as unknown."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=has_group)
    kills = []

    def kill() -> None:
        kills.append(child.pid)
        child.kill()

    process: Any = SimpleNamespace(pid=child.pid, returncode=None, kill=kill)
    ExecProgram(process, None, {}).kill()
    assert child.wait(60) == -signal.SIGKILL
    assert len(kills) == killed_alone
