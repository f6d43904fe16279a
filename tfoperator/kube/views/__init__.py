"""Typed, trimmed views of Kubernetes objects, and what caches keep of them. No I/O."""
