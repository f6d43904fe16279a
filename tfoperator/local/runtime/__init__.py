"""The container runtimes: the `Runtime` protocol, its two implementations, and their common parts.

`process` runs each container as a process group on this machine. `docker` runs each container as a Docker container.
This module imports neither package, so a command that needs only the files `selection` or `log_files` loads no runtime.
"""
