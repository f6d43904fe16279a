"""The decisions of a seed: jobs, steps and faults. Pure."""
