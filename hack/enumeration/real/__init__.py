"""Many jobs on a real API server, beside an operator that runs as a process."""
