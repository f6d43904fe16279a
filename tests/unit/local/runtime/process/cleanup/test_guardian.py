import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.local.node.pods import python
from tfoperator.local.identity import identify
from tfoperator.local.runtime.process.cleanup.guardian import GroupGuardian


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)


def test_the_secret_mark_of_a_run_is_in_no_command_line(tmp_path: Path) -> None:
    guardian = GroupGuardian(tmp_path, "secret-mark")
    guardian.start()
    try:
        assert "secret-mark" not in " ".join(psutil.Process(guardian.pid).cmdline())
    finally:
        guardian.stop()


def test_registered_groups_end_with_it_and_discarded_ones_do_not(tmp_path: Path) -> None:
    guardian = GroupGuardian(tmp_path, "mark")
    guardian.start()
    mine, other = sleeper(), sleeper()
    try:
        guardian.add(mine.pid)
        guardian.add(other.pid)
        guardian.discard(other.pid)
        stopping = InThread(guardian.stop)
        assert mine.wait(60) == -signal.SIGTERM
        stopping.result()
        assert other.poll() is None
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()


def test_containers_die_when_their_agent_is_killed(tmp_path: Path) -> None:
    # An agent with one stubborn container, which has started a process of its own.
    child = textwrap.dedent("""
        import signal, subprocess, time
        subprocess.Popen(["sleep", "60"])
        daemon = subprocess.Popen(["sleep", "60"], start_new_session=True, env={"TFOPERATOR_CONTAINER": "mark.0"})
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(daemon.pid, flush=True)
        time.sleep(60)
    """)
    link = tmp_path / "mnt"
    agent = textwrap.dedent(f"""
        import subprocess, sys, time
        from pathlib import Path
        from tfoperator.local.runtime.process.mounts.mount_links import MountLinks
        from tfoperator.local.runtime.process.cleanup.guardian import GroupGuardian
        guardian = GroupGuardian(Path({str(tmp_path)!r}), "mark", grace=0.3)
        guardian.start()
        child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True, stdout=subprocess.PIPE)
        daemon = int(child.stdout.readline())
        guardian.add(child.pid)
        MountLinks(Path({str(tmp_path)!r})).make("pod", Path({str(link)!r}), Path("/"))
        print(child.pid, daemon, flush=True)
        time.sleep(60)
    """)
    process = subprocess.Popen([sys.executable, "-c", agent], stdout=subprocess.PIPE)
    try:
        group, daemon = map(int, process.stdout.readline().split())
        assert identify(group) is not None
        assert link.is_symlink()
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: identify(group) is None)
        eventually(lambda: not _group_exists(group))
        eventually(lambda: identify(daemon) is None)
        eventually(lambda: not link.is_symlink())  # it would lead the next run into this one's volume
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _group_exists(group: int) -> bool:
    """Whether any process of the group lives (zombies, which nobody may reap here, do not count)."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            return True
    return False
