"""Commands about the jobs of a cluster: they talk to its API server through the SDK, and print what it says."""
