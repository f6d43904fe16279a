"""CPU time and memory of containers that run as process groups, including all their descendant processes.

A container has its own session, so its processes are found by their session ID. This costs one system call for each
process of the machine, which is faster than reading a file of `/proc`. If a process has started another session, it
still counts for the container of its parent process.
"""

from __future__ import annotations

import os
from collections.abc import Collection

import psutil


class ProcessMeter:
    """Measures the CPU time and memory of sessions.

    Not thread-safe: the object keeps data of processes from a measurement to the next.
    """

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}  # by ID; the processes of the last measurement

    def measure(self, sessions: Collection[int]) -> dict[int, tuple[float, int]]:
        """Return the usage of each session, by session ID: (CPU time in seconds, resident memory in bytes).

        The CPU time includes the CPU time of child processes that have ended. A process is skipped if it ends during
        the measurement, or if this user may not inspect it. A session without a process that can be measured is left
        out.
        """
        if not sessions:
            self._processes.clear()
            return {}
        members = _members(sessions)
        self._processes = {pid: process for pid, process in self._processes.items() if pid in members}
        cpu: dict[int, float] = {}
        memory: dict[int, int] = {}
        for pid, session in members.items():
            try:
                process = self._processes.get(pid) or self._processes.setdefault(pid, psutil.Process(pid))
                times, resident = process.cpu_times(), process.memory_info().rss
            except psutil.Error:
                self._processes.pop(pid, None)
                continue
            # The children_ times count only children that have ended and were reaped. Living children are members.
            spent = times.user + times.system + times.children_user + times.children_system
            cpu[session] = cpu.get(session, 0.0) + spent
            memory[session] = memory.get(session, 0) + resident
        return {session: (spent, memory[session]) for session, spent in cpu.items()}


def _members(sessions: Collection[int]) -> dict[int, int]:
    """Return {process ID: session ID} of all processes of these sessions.

    If a process of these sessions has started another session, the result also contains the processes of the new
    session, with the ID of the old session.
    """
    members: dict[int, int] = {}
    foreign: dict[int, list[int]] = {}  # other sessions: their processes
    for pid in psutil.pids():
        try:
            session = os.getsid(pid)
        except OSError:
            continue
        if session in sessions:
            members[pid] = session
        else:
            foreign.setdefault(session, []).append(pid)
    # A process of a container may start a session, and a process of this session another session: the leader of each
    # such session has a parent that is already a member.
    parents = {leader: _parent(leader) for leader in foreign if leader}
    has_begun = True
    while has_begun:
        begun = {leader: members[parent] for leader, parent in parents.items() if parent in members}
        for leader, session in begun.items():
            del parents[leader]
            members.update(dict.fromkeys(foreign[leader], session))
        has_begun = bool(begun)
    return members


def _parent(pid: int) -> int:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return 0
