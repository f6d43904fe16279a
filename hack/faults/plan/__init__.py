"""What a seed decides: jobs, steps and faults. Pure."""
