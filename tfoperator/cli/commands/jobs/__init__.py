"""Commands for the jobs of a cluster: they use the cluster's API server through the SDK, and print the results."""
