"""The benchmark: compares this operator with the Go operator, each on its own control plane (docs/benchmark.md)."""
