"""A container as a process group: its processes, their limits, their use of CPU and memory, and their stacks."""
