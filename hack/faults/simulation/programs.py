"""Simulates training programs that report progress, as the operator writes it into the status of their job."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from hack.faults.oracle.history import true_conditions
from hack.faults.simulation.namespace import Json, Namespace
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import KubeError

_REPORT_SECONDS = 0.4
"""Real seconds between two reports when nothing is wrong: less than any deadline on either server."""


class Programs:
    """For one thread. `now` is the wall clock of nodes, `monotonic` returns real seconds."""

    def __init__(
        self, namespace: Namespace, now: Callable[[], datetime], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._namespace = namespace
        self._now = now
        self._monotonic = monotonic
        self._reported: dict[str, float] = {}  # when each job's programs last reported by themselves

    def report(self, name: str, pick: float = 1.0) -> str:
        """Let a program of the job report progress; one replica may be behind. Raises KubeError."""
        job = next((obj for obj in self._namespace.recorder.current("TFJob") if obj["metadata"]["name"] == name), None)
        if job is None or {"Succeeded", "Failed"} & true_conditions(job.get("status") or {}).keys():
            return "no such job, or it has ended"
        moment = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        progress: Json = {"step": 10, "lastUpdatedTime": moment, "behind": []}
        if pick < 0.5:
            progress["behind"] = [{"name": f"worker-{int(pick * 4)}", "step": 5, "lastUpdatedTime": moment}]
        self._namespace.patch(TFJOBS, name, {"status": {"progress": progress}}, "status")
        return f"{name} reports{' that one is behind' if pick < 0.5 else ''}"

    def go_on(self, name: str) -> None:
        """Report that nothing is wrong, if the last report was a while ago. Failures don't matter: it is done again."""
        last = self._reported.get(name)
        if last is not None and self._monotonic() - last < _REPORT_SECONDS:
            return
        self._reported[name] = self._monotonic()
        with suppress(KubeError):
            self.report(name)
