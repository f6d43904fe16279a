"""The process runtime: each container is a process group of this machine.

The machine's own programs replace the image.
"""
