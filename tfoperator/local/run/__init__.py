"""`tfoperator run`: TFJobs of a manifest from their creation to their end, on a control plane of their own.

`JobRun` runs them and tells a `RunListener` what happens; `RunResult` says how it ended. Nothing here prints.
"""

from tfoperator.local.run.container_output import LogChunk
from tfoperator.local.run.job_run import JobRun
from tfoperator.local.run.lifecycle import ControlPlaneFailed
from tfoperator.local.run.results import JobResult, ReplicaResult, RunOutcome, RunResult
from tfoperator.report import FinalState

__all__ = [
    "ControlPlaneFailed",
    "FinalState",
    "JobResult",
    "JobRun",
    "LogChunk",
    "ReplicaResult",
    "RunOutcome",
    "RunResult",
]
