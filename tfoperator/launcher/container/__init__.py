"""Runs the attempts of a container, on any platform.

A launcher renders a container from its component, and creates it once per attempt. After a crash, the next launcher
finds the container again. A launcher forwards the container's log, and removes its objects after its end.
`ContainerComponentLauncher` does this work. Each platform implements `Backend`. A backend gets a `Launch`, which
contains all data that the backend needs.
"""
