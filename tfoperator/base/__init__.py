"""Basic utilities for every other package, without dependencies on them: time, text and numbers."""
