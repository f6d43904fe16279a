"""Reads the logs of a replica's earlier runs, which had ended before the page was opened.

Each start of a container begins a new run. If containers run on this machine, each run has a log file, which remains
after the deletion of the pod. In a cluster, the kubelet keeps only the logs of the current and of the previous run.
Logs of older runs can only be in the log archive. The page lists the archive separately.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from tfoperator.base.files import open_regular, tail_offset
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ClientClosed, KubeError
from tfoperator.sdk.logs.run_log import ContainerRun
from tfoperator.ui.jobs.objects import SeenPod

if TYPE_CHECKING:
    from tfoperator.local.runtime.log_files import LogFile

logger = logging.getLogger(__name__)

Attempts = Callable[[str, str, str], "Sequence[LogFile]"]
"""A function `(namespace, pod, container)` that returns the log files of a container on this machine: a file for each
run of the container, in all pods that have had this name. The oldest file comes first.
"""

_MAX_RUNS = 20
"""The page shows the logs of at most this many earlier runs of a replica: the newest of these runs. A program that
fails at its start may have had hundreds of runs.
"""
_LINES = 2000
"""A batch of lines from the API server has at most this many lines. A batch of lines from a file ends as soon as it has
at least 100 times this many bytes.
"""
_GONE = "gone"
"""If the UID of a deleted pod is unknown, this text replaces the UID."""


class EarlierLines(msgspec.Struct, frozen=True):
    """Some log lines of an earlier run. The pod's UID and the number of restarts before the run identify the run."""

    uid: str
    restarts: int
    lines: list[str]


def earlier_lines(
    client: Client, attempts: Attempts | None, pod: SeenPod, run: ContainerRun, tail_lines: int
) -> Iterator[EarlierLines]:
    """Yield batches of lines: the last `tail_lines` lines of each run before `run`, the oldest run first.

    `attempts` returns the log files of a container on this machine: the newest `_MAX_RUNS` files are read. It is None
    if the containers run in a cluster: then only the log of the previous run is read. The function skips a log that it
    can't read.
    """
    if attempts is None:
        yield from _previous(client, pod, run, tail_lines)
        return
    logs = _before(attempts(pod.metadata.namespace, pod.metadata.name, run.container), run)
    first = len(logs) - run.restarts
    numbers: dict[str, int] = {}
    for number, log in enumerate(logs):
        uid = log.owner or (run.pod_uid if number >= first else _GONE)
        restarts = numbers[uid] = numbers.get(uid, -1) + 1
        if number >= len(logs) - _MAX_RUNS:
            yield from _of_file(log, uid, restarts, tail_lines)


def _before(logs: Sequence[LogFile], run: ContainerRun) -> Sequence[LogFile]:
    """Return the logs that are older than the log of `run`.

    If some of the logs belong to the pod of `run`, the number of restarts selects the log of `run` among these logs.
    Otherwise, the last log counts as the log of `run`.
    """
    own = [number for number, log in enumerate(logs) if log.owner == run.pod_uid]
    return logs[: own[min(run.restarts, len(own) - 1)]] if own else logs[:-1]


def _of_file(log: LogFile, uid: str, restarts: int, tail_lines: int) -> Iterator[EarlierLines]:
    try:
        with open_regular(log.path) as stream:
            stream.seek(tail_offset(stream, tail_lines))
            while data := stream.readlines(_LINES * 100):
                text = b"".join(data).decode(errors="replace")
                yield EarlierLines(uid, restarts, text.removesuffix("\n").split("\n"))
    except OSError as error:
        logger.debug("the log %s can't be read: %s", log.path, error)


def _previous(client: Client, pod: SeenPod, run: ContainerRun, tail_lines: int) -> Iterator[EarlierLines]:
    if run.restarts == 0:
        return
    meta = pod.metadata
    try:
        with client.pod_log(meta.namespace, meta.name, run.container, previous=True, tail_lines=tail_lines) as stream:
            text = b"".join(stream).decode(errors="replace")
    except ClientClosed:
        raise
    except KubeError as error:  # usually because the kubelet has removed this log
        logger.debug("the log of the previous run of %s can't be read: %s", meta.name, error)
        return
    lines = text.removesuffix("\n").split("\n")
    for begin in range(0, len(lines), _LINES):
        yield EarlierLines(run.pod_uid, run.restarts - 1, lines[begin : begin + _LINES])
