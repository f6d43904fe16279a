"""Kills pods that run, a tenth at a time, and sees how long it takes until others run in their places."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from hack.bench.environment import Environment
from hack.bench.loads import NAMESPACE, Load
from hack.bench.measure import median_and_p99
from hack.bench.paths import pods_path
from hack.bench.watcher import Watcher, all_reported
from hack.kubelet import container_status, terminated

_KILLED = 137  # SIGKILL: what a container that was killed exits with
_CONTENT_TYPE = "application/merge-patch+json"


def churn(
    environment: Environment, load: Load, watcher: Watcher, timeout: float, say: Callable[[str], None]
) -> dict[str, float]:
    """Kill in every round, and wait until all pods run and all statuses show it; return the figures by name.

    Raises TimeoutError, RequestFailed, OSError.
    """
    chance, last = random.Random(len(load.name)), time.monotonic()
    for number in range(load.churn_rounds):
        if number:
            time.sleep(max(0.0, last + load.churn_period - time.monotonic()))
        last = time.monotonic()
        with watcher.lock:
            running = sorted(name for name, phase in watcher.seen.phases.items() if phase == "Running")
        victims = chance.sample(running, min(len(running), victims_of(load)))
        say(f"killing {len(victims)} pods")
        for name in victims:
            with watcher.lock:
                watcher.seen.kill(name, time.monotonic())
            _kill(environment, name)
    watcher.wait("all pods run again", lambda observed: observed.running == load.pods and not observed.killed, timeout)
    with watcher.lock:
        ended, healed = watcher.seen.last_healed, list(watcher.seen.healed)
    watcher.wait("all statuses tell of all pods", all_reported(load), timeout)
    p50, p99 = median_and_p99(healed)
    return {"healthy_s": ended - last, "heal_p50_s": p50, "heal_p99_s": p99, "heal_max_s": max(healed)}


def victims_of(load: Load) -> int:
    """How many pods are killed in a round."""
    return max(1, load.pods // 10)


def _kill(environment: Environment, pod: str) -> None:
    """Report a pod's status as its kubelet does when the container was killed."""
    ended = container_status(terminated(_KILLED, finishedAt=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))
    body = msgspec.json.encode({"status": {"phase": "Failed", "containerStatuses": [ended]}})
    path = f"{pods_path(NAMESPACE)}/{pod}/status"
    environment.client.request("PATCH", path, body, _CONTENT_TYPE)
