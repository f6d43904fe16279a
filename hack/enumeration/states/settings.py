"""The jobs whose states are explored, small jobs first: each restart policy, scope, clean-up policy, and limits."""

from __future__ import annotations

from hack.enumeration.states.living import Setting
from hack.faults.plan.steps import JobShape

_POLICIES = ("Never", "OnFailure", "Always", "ExitCode")


def _job(policy: str, replicas: dict[str, int], disturbances: int = 1, **run_policy: str | int) -> Setting:
    rules = ", ".join((policy, *(f"{name} {value}" for name, value in run_policy.items())))
    sizes = " and ".join(f"{count} {kind}" for kind, count in replicas.items())
    times = "" if disturbances == 1 else f", {disturbances} disturbances"
    shape = JobShape("job-0", replicas, policy, run_policy=dict(run_policy))
    return Setting(f"{sizes}, {rules}{times}", shape, disturbances)


SETTINGS: tuple[Setting, ...] = (
    *(_job(policy, {"Worker": 1}) for policy in _POLICIES),
    _job("ExitCode", {"PS": 1, "Worker": 1}),
    _job("ExitCode", {"PS": 1, "Worker": 1}, restartScope="Job"),
    _job("OnFailure", {"Worker": 1}, activeDeadlineSeconds=30),
    _job("OnFailure", {"Worker": 1}, 2, backoffLimit=1),
    *(_job("Never", {"Worker": 2}, cleanPodPolicy=policy) for policy in ("All", "Running", "None")),
    *(_job(policy, {"Worker": 2}) for policy in _POLICIES),
    _job("ExitCode", {"Chief": 1, "Worker": 1}),
    Setting(
        "3 Worker, ExitCode, minSucceededWorkers 2, maxFailedWorkers 1",
        JobShape("job-0", {"Worker": 3}, "ExitCode", min_succeeded=2, max_failed=1),
    ),
    *(_job(policy, {"Worker": 1}, 2) for policy in _POLICIES),
    *(_job(policy, {"PS": 1, "Worker": 2}, restartScope=scope) for policy in _POLICIES for scope in ("Replica", "Job")),
    *(_job("ExitCode", {"Worker": 2}, 2, restartScope=scope) for scope in ("Replica", "Job")),
    _job("ExitCode", {"PS": 3, "Worker": 3}),
)


def find_setting(name: str) -> Setting:
    """The setting of this name. Raises KeyError."""
    return {setting.name: setting for setting in SETTINGS}[name]
