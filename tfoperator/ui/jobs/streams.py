"""The page's streams of jobs. A stream is a response without an end that consists of lines of JSON.

A stream first sends the current state, and then changes. `job_list` is the stream of the list of jobs. `one_job` is the
stream of a single job, with the logs of the replicas that the page requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from typing import Any

import msgspec

from tfoperator.api.replicas.names import replica_name
from tfoperator.api.v1.types import TFJob
from tfoperator.sdk.states import pod_order
from tfoperator.ui.jobs.board import Board, Cluster
from tfoperator.ui.jobs.logs import LogFeed
from tfoperator.ui.jobs.views import event_rows, job_detail, job_row, replica_rows
from tfoperator.ui.listening import ChangeListener
from tfoperator.ui.streaming import HEARTBEAT, Producer, Put, encode, merged, next_changes

_CLOCK_SKEW = 60.0
"""Usage samples count as samples of a job if they are at most this many seconds older than the job. The times of
samples come from the clocks of nodes, and the creation time of a job comes from the API server's clock. So the clock of
a node may be this many seconds behind the API server's clock.
"""
_ITEMS_PER_LINE = 250
"""A line of JSON has at most this many jobs. After each line, the event loop can run other tasks."""


async def job_list(cluster: Cluster) -> AsyncGenerator[bytes, None]:
    """Yield lines with all jobs, and then lines with changes.

    `{"jobs": [...], "gone": [...]}` contains new and changed jobs, and the keys of deleted jobs. `{"synced": true,
    ...}` follows when all jobs were sent. Then the page removes the jobs that this stream has not sent. After each
    measurement, `{"used": {...}}` contains the CPU, memory and other resources that the pods of each job use, by the
    job's key.
    """
    board, rounds = cluster.board, 0
    with board.listeners.listening() as listener:
        sent: set[str] = set()
        complete = False
        yield (status := _status(board, complete))
        changed = {job.metadata.key for job in board.jobs()}
        while not board.closed:
            if board.synced and not complete:
                complete = True
                changed |= {job.metadata.key for job in board.jobs()}
            for keys in _batches(sorted(changed - {""})):
                jobs = filter(None, map(board.job, keys))
                rows = [job_row(job, cluster.queues.get(job.metadata.uid)) for job in jobs]
                present = {row["key"] for row in rows}
                gone = [key for key in keys if key not in present and key in sent]
                sent = (sent | present) - set(gone)
                if rows or gone:
                    yield encode({"jobs": rows, "gone": gone})
                await asyncio.sleep(0)
            if not changed or "" in changed or status != _status(board, complete):
                yield (status := _status(board, complete))
            if complete and cluster.usage.rounds != rounds:
                rounds = cluster.usage.rounds
                yield encode(
                    {"used": {job.metadata.key: used for job in board.jobs() if (used := _used(cluster, job))}}
                )
            changed = await next_changes(listener)


async def one_job(cluster: Cluster, key: str, feed: LogFeed | None, logs: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """Yield the parts of the job `namespace/name` (job, replicas, events, curves), each when it has changed.

    With a feed, also yield the logs of the replicas in `logs`.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(cluster.board.listeners.listening())
        producers: list[Producer] = [lambda put: _parts(cluster, key, feed, logs, listener, put)]
        if feed is not None:
            stack.callback(feed.close)
            producers.append(lambda put: _lines(feed, put))
        async with aclosing(merged(producers)) as lines:
            async for line in lines:
                yield line


async def _parts(
    cluster: Cluster, key: str, feed: LogFeed | None, logs: Sequence[str], listener: ChangeListener, put: Put
) -> None:
    board, usage = cluster.board, cluster.usage
    sent: dict[str, bytes] = {}
    sampled: dict[str, float] = {}
    rounds = -1
    uid = ""
    while not board.closed:
        await put(_status(board, board.synced))
        job = board.job(key)
        if job is not None and job.metadata.uid != uid:
            # The job was deleted, and a new job has the same name. The page discards all parts of the old job. So send
            # all parts of the new job, even if a part is equal to the part of the old job.
            uid = job.metadata.uid
            sent.clear()
        for name, value in _sections(cluster, job).items():
            line = encode({name: value})
            if sent.get(name) != line:
                sent[name] = line
                await put(line)
            await asyncio.sleep(0)
        if job is not None and usage.rounds != rounds:
            rounds = usage.rounds
            await put(encode({"usage": _samples(cluster, job, sampled), "problem": usage.problem}))
        if job is not None and feed is not None:
            pods = [(replica_name(pod), pod) for pod in sorted(board.pods(job), key=pod_order)]
            feed.follow([(name, pod) for name, pod in pods if name in logs])
        await next_changes(listener, of={key, ""})


async def _lines(feed: LogFeed, put: Put) -> None:
    while True:
        for batch in await feed.take(HEARTBEAT):
            await put(encode({"log": msgspec.to_builtins(batch)}))


def _sections(cluster: Cluster, job: TFJob | None) -> Mapping[str, Any]:
    board = cluster.board
    if job is None:
        return {"job": None} if board.synced else {}
    uid, events = job.metadata.uid, board.events(job)
    return {
        "job": job_detail(job, cluster.queues.get(uid), board.history.phases(uid), local=board.local),
        "replicas": replica_rows(job, board.pods(job), board.history.pods(uid), events, board.now()),
        "events": event_rows(events),
        "curves": board.history.metrics(uid),
    }


def _samples(cluster: Cluster, job: TFJob, sampled: dict[str, float]) -> dict[str, list[Any]]:
    """Return the new usage samples of each replica. `sampled` contains, by pod, the time of the last sent sample.

    The function updates `sampled`.
    """
    samples = {}
    made = job.metadata.creation_timestamp
    # Samples are stored by the name of the pod. So samples that are older than this job can belong to the pods of an
    # earlier job with the same name.
    begin = made.timestamp() - _CLOCK_SKEW if made is not None else 0.0
    for pod in cluster.board.pods(job):
        meta = pod.metadata
        new = cluster.usage.samples(meta.namespace, meta.name, max(begin, sampled.get(meta.name, 0.0)))
        if new:
            sampled[meta.name] = new[-1].time
            samples[replica_name(pod)] = new
    return samples


def _used(cluster: Cluster, job: TFJob) -> dict[str, float]:
    """Return the sum of the newest usage samples of a job's pods, by resource. For an ended job, return {}."""
    total: dict[str, float] = {}
    for pod in cluster.board.pods(job) if job.status.completion_time is None else ():
        for name, amount in cluster.usage.latest(pod.metadata.namespace, pod.metadata.name).items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _status(board: Board, synced: bool) -> bytes:
    return encode({"synced": synced, "problems": board.health.problems, "ended": board.ended})


def _batches(keys: Sequence[str]) -> list[Sequence[str]]:
    return [keys[i : i + _ITEMS_PER_LINE] for i in range(0, len(keys), _ITEMS_PER_LINE)]
