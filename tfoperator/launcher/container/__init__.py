"""The life of a container's attempts, on any platform.

A container is rendered from its component, created once per attempt, and found again by the next launcher; its
log is forwarded, and its remains are removed. `ContainerComponentLauncher` does that; a platform implements
`Backend`, for which it gets a `Launch`, with all data for a backend.
"""
