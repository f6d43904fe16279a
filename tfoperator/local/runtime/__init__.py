"""The container runtimes: the `Runtime` protocol, its two implementations, and their common parts.

`process` runs each container as a process group of this machine, `docker` as a Docker container. This module imports
neither of them: commands use `selection` and `log_files` without a runtime.
"""
