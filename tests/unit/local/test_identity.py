import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.unit.local.node.pods import python
from tfoperator.local.identity import ProcessIdentity, identify, is_alive, signal_process


def test_without_proc_a_process_stays_the_same_wherever_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.setattr("tfoperator.local.identity._PROC", Path("/nonexistent"))
    identities = set()
    for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
        monkeypatch.setenv("TZ", zone)
        identities.add(identify(os.getpid()))
    assert len(identities) == 1
    assert None not in identities
    assert identify(2**22 + 1) is None


def test_a_record_that_names_init_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """To its group means to all processes."""
    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda group, _: sent.append(group))
    monkeypatch.setattr(os, "kill", lambda pid, _: sent.append(pid))
    init = identify(1)
    assert init is not None
    for group in (True, False):
        assert not signal_process(init, signal.SIGCONT, group=group)
    assert sent == []


def test_only_the_very_process_is_signalled_which_is_known_by_more_than_its_id() -> None:
    process = subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)
    try:
        identity, other = identify(process.pid), ProcessIdentity(process.pid, "1")
        assert identity is not None
        assert (is_alive(identity), is_alive(other)) == (True, False)
        assert not signal_process(other, signal.SIGKILL)
        assert process.poll() is None
        assert signal_process(identity, signal.SIGKILL, group=True)
        eventually(lambda: identify(process.pid) is None, what="a zombie counts as ended")
        assert not signal_process(identity, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
