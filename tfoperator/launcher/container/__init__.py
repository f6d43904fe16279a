"""Runs the container of a component, with retries, on any platform.

`ContainerComponentLauncher` creates a new container (a Docker container, a pod or a TFJob) for each attempt. The
launcher forwards the container's log, and removes the container after its end. If the launcher crashes, the next
launcher continues with the same container. Each platform implements `Backend`. A backend gets a `Launch`, which
contains all data that the backend needs.
"""
