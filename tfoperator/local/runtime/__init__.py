"""The container runtimes: the `Runtime` protocol, its two implementations, and their common parts.

`process` runs each container as a process group of this machine, `docker` as a Docker container. `docker` is not
imported here, because its library is an extra: `make_runtime` loads it when it is requested.
"""

from tfoperator.local.runtime.log_files import last_lines
from tfoperator.local.runtime.process.records import RECORDS, kill_recorded
from tfoperator.local.runtime.protocol import RuntimeUnavailable
from tfoperator.local.runtime.selection import RuntimeName

__all__ = ["RECORDS", "RuntimeName", "RuntimeUnavailable", "kill_recorded", "last_lines"]
