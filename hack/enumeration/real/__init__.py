"""Many jobs on a real API server, with an operator that runs as a process."""
