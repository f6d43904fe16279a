"""The process runtime: each container is a process group of this machine, which replaces the image."""

from tfoperator.local.runtime.process.programs import shown_devices
from tfoperator.local.runtime.process.records import RECORDS, kill_recorded
from tfoperator.local.runtime.process.runtime import ProcessRuntime
from tfoperator.local.runtime.process.stacks import is_stopped

__all__ = ["RECORDS", "ProcessRuntime", "is_stopped", "kill_recorded", "shown_devices"]
