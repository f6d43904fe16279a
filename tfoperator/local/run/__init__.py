"""`tfoperator run`: TFJobs of a manifest from their creation to their end, on their own control plane.

`JobRun` runs them and reports events to a `RunListener`; `RunResult` says how the run ended. Nothing here prints.
"""

from tfoperator.local.run.container_output import LogChunk
from tfoperator.local.run.job_run import JobRun
from tfoperator.local.run.lifecycle import ControlPlaneFailed
from tfoperator.local.run.records import RecordedRun, read_records
from tfoperator.local.run.results import JobResult, ReplicaResult, RunOutcome, RunResult
from tfoperator.report import FinalState

__all__ = [
    "ControlPlaneFailed",
    "FinalState",
    "JobResult",
    "JobRun",
    "LogChunk",
    "RecordedRun",
    "ReplicaResult",
    "RunOutcome",
    "RunResult",
    "read_records",
]
