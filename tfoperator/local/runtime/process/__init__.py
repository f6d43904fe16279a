"""The process runtime: each container is a process group of this machine, which replaces the image."""
