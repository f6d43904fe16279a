"""Patches as pure functions: merge patch (RFC 7386) and Kubernetes' strategic merge patch."""
