"""The number of workers of an elastic job."""
