"""The process runtime: each container is a process group of this machine.

The machine's own programs replace the image. `runtime` implements the protocol of runtimes. `starter` starts a
container, `programs` finds its program and makes its environment, and `container_main` is the first program of a
container that has volumes. The packages below are `mounts` (the volumes), `groups` (the running containers), and
`cleanup` (the cleanup after a run that was killed).
"""
