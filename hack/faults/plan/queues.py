"""The admission that the Kueue of a plan gives to jobs. Values only.

The selectors, tolerations and labels are what pods have to get, by a flavor of nodes and by an admission check.
"""

from __future__ import annotations

CLUSTER_QUEUE = "big"
FLAVOR = "fast"

FLAVOR_SELECTOR = {"disk": "ssd"}
FLAVOR_TOLERATION = {"key": "gpu", "operator": "Exists"}
"""The toleration that the flavor has for its nodes."""

CHECK = "budget"
CHECK_LABELS = {"slot": "7"}
CHECK_SELECTOR = {"zone": "a"}
CHECK_TOLERATION = {"key": "zone", "operator": "Exists"}
"""Labels, selector and toleration that the admission check adds to pods, where there is an admission check."""

PRIORITIES = {"": 0, "calm": 1, "urgent": 1000}
"""The priorities of jobs, by the name of their class."""
