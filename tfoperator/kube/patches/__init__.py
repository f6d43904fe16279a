"""Patches as pure functions: merge patch (RFC 7386) and Kubernetes' strategic merge patch."""

from tfoperator.kube.patches.merge_keys import ONE_OF, merge_keys
from tfoperator.kube.patches.strategic_merge import StrategicMergeError, strategic_merge

__all__ = ["ONE_OF", "StrategicMergeError", "merge_keys", "strategic_merge"]
