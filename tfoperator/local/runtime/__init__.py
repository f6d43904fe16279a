"""The container runtimes: the `Runtime` protocol, its two implementations, and their common parts.

`process` runs each container as a process group on this machine. `docker` runs each container as a Docker container.
This module does not import these two packages. So a command that only reads logs (`log_files.py`) or checks the option
`--runtime` (`selection.py`) loads no runtime.
"""
