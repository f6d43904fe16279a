"""The container runtimes: the `Runtime` protocol, its two implementations, and their common parts.

`process` runs each container as a process group of this machine, `docker` as a Docker container. `docker` is not
imported here, because its library is an extra: `make_runtime` loads it when it is requested.
"""

from tfoperator.local.runtime.beneath import UnsafePath, folder_beneath, parts_beneath
from tfoperator.local.runtime.log_files import LogFile, LogRequest, last_lines, tail_offset
from tfoperator.local.runtime.loopback_network import LOOPBACK, NoFreePort
from tfoperator.local.runtime.measurements import ContainerName, Measurement, PeakMemory
from tfoperator.local.runtime.process import RECORDS, is_stopped, kill_recorded, shown_devices
from tfoperator.local.runtime.protocol import (
    Beside,
    ContainerProcess,
    ContainerStart,
    HostService,
    LaunchError,
    LocalPod,
    Mount,
    NotYet,
    OnExit,
    Runtime,
    RuntimeUnavailable,
    decode_pod,
    real_path,
)
from tfoperator.local.runtime.selection import RuntimeName, make_runtime

__all__ = [
    "LOOPBACK",
    "RECORDS",
    "Beside",
    "ContainerName",
    "ContainerProcess",
    "ContainerStart",
    "HostService",
    "LaunchError",
    "LocalPod",
    "LogFile",
    "LogRequest",
    "Measurement",
    "Mount",
    "NoFreePort",
    "NotYet",
    "OnExit",
    "PeakMemory",
    "Runtime",
    "RuntimeName",
    "RuntimeUnavailable",
    "UnsafePath",
    "decode_pod",
    "folder_beneath",
    "is_stopped",
    "kill_recorded",
    "last_lines",
    "make_runtime",
    "parts_beneath",
    "real_path",
    "shown_devices",
    "tail_offset",
]
