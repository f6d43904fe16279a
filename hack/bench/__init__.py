"""The benchmark: this operator beside the Go operator, on control planes of their own (docs/benchmark.md)."""
