import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.support.eventually import eventually
from tests.unit.local.node.pods import python
from tfoperator.local.runtime.process.groups.process_usage import ProcessMeter

MIB = 1 << 20
HOLD = "import sys; held = bytearray({size} << 20); held[::4096] = b'x' * len(held[::4096]); print('up', flush=True)\n"
WAIT = "sys.stdin.read()"
BUSY = "import time\nwhile time.process_time() < {seconds}: pass\n"


@contextmanager
def session(code: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, once it has printed that it is up; its children are killed with it."""
    with subprocess.Popen(
        python(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            with suppress(ProcessLookupError):  # it has ended already
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("new_session", [False, True], ids=["its session", "a session of their own"])
def test_children_count_wherever_they_are(new_session: bool) -> None:
    child = HOLD.format(size=60) + WAIT
    call = f"[sys.executable, '-I', '-S', '-c', {child!r}], start_new_session={new_session}"
    spawn = f"import subprocess, sys; subprocess.run({call})"
    with session(spawn) as process:
        _, memory = ProcessMeter().measure([process.pid])[process.pid]
        process.stdin.close()  # ends a child that would outlive its group
        process.wait(60)
    assert memory > 60 * MIB


def test_containers_are_told_apart_with_what_their_ended_children_spent_and_others_left_out() -> None:
    child = BUSY.format(seconds=0.5)
    spawn = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {child!r}])\n"
    with session(spawn + "print('up', flush=True)\n" + WAIT) as process:
        assert ProcessMeter().measure([process.pid])[process.pid][0] >= 0.45
    meter = ProcessMeter()
    busy = BUSY.format(seconds=0.3) + HOLD.format(size=80)
    with session(HOLD.format(size=20) + WAIT) as small, session(busy + WAIT) as large:
        usage = meter.measure([small.pid, large.pid])
        assert set(meter.measure([small.pid])) == {small.pid}
    spent, memory = usage[large.pid]
    assert memory > max(80 * MIB, usage[small.pid][1] + 40 * MIB)
    assert spent >= 0.25


def test_one_that_has_ended_is_no_error_nor_is_a_zombie() -> None:
    meter = ProcessMeter()
    with session(HOLD.format(size=1) + WAIT) as process:
        assert set(meter.measure([process.pid])) == {process.pid}
    assert meter.measure([process.pid]) == {}
    assert meter.measure([]) == {}
    process = subprocess.Popen([sys.executable, "-c", "pass"], start_new_session=True)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    usage = eventually(lambda: meter.measure([process.pid]) or {process.pid: None}, within=60)
    assert set(usage) == {process.pid}
    process.wait()
