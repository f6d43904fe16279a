"""The health check for Argo CD, run by Lua 5.1, which Argo CD's interpreter implements."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from lupa.lua51 import LuaRuntime

from hack.faults.oracle.history import conditions_in

Json = dict[str, Any]

PATCH = Path(__file__).resolve().parents[2] / "manifests" / "argocd" / "health-check.yaml"
KEY = "resource.customizations.health.kubeflow.org_TFJob"


class HealthCheck:
    """Says what Argo CD shows of a job. For one thread."""

    def __init__(self) -> None:
        self._script = yaml.safe_load(PATCH.read_text())["data"][KEY]
        self._lua = LuaRuntime(unpack_returned_tuples=True)
        self._known: set[object] = set()
        self.given: set[str] = set()
        """The statuses that `expect` has seen."""

    def __call__(self, job: Mapping[str, Any]) -> tuple[str, str]:
        """Return the status and the message for a job."""
        self._lua.globals().obj = self._lua.table_from(dict(job), recursive=True)
        health = self._lua.execute(self._script)
        return str(health.status), str(health.message)

    def expect(self, job: Json) -> None:
        """Check the health of a job, once for each state of a job. Raises AssertionError."""
        status = job.get("status") or {}
        conditions = conditions_in(status)
        observed = status.get("observedGeneration", 0) == job["metadata"]["generation"]
        state = (
            frozenset((condition["type"], condition["status"]) for condition in conditions),
            observed,
            status.get("phase"),
        )
        if state in self._known:
            return
        self._known.add(state)
        health_status, message = self(job)
        assert health_status == expected(status, observed=observed), (health_status, state)
        assert message, state
        self.given.add(health_status)


def expected(status: Json, *, observed: bool) -> str:
    """Return the status that a person would expect: by the phase, and by the conditions of a job that goes on."""
    phase = status.get("phase")
    if phase in ("Failed", "Succeeded"):
        return "Degraded" if phase == "Failed" else "Healthy"
    condition_statuses = {condition["type"]: condition["status"] for condition in conditions_in(status)}
    if not condition_statuses or not observed:
        return "Progressing"
    if condition_statuses.get("Suspended") == "True" or condition_statuses.get("Admitted") == "False":
        return "Suspended"
    return "Degraded" if phase == "Unknown" or condition_statuses.get("Stalled") == "True" else "Progressing"
