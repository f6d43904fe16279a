"""The past and present logs of a job's replicas: runs of containers, through restarts and deletions."""

from tfoperator.sdk.logs.history import ReplicaLog
from tfoperator.sdk.logs.log_reader import JobLogReader
from tfoperator.sdk.logs.log_stream import JobLogStream
from tfoperator.sdk.logs.pod_logs import LogLine, LogOptions
from tfoperator.sdk.logs.run_log import ContainerRun, RunLogReader

__all__ = ["ContainerRun", "JobLogReader", "JobLogStream", "LogLine", "LogOptions", "ReplicaLog", "RunLogReader"]
