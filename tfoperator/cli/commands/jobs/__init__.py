"""Commands for the jobs of a cluster: they use its API server through the SDK, and print the results."""
