"""How many workers must succeed and how many may fail, as docs/tfjob.md has it; the oracle's own reading of it.

`size` and the sets of indexes are of the workers that there are by the spec: those beyond it count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

Json = dict[str, Any]


def goes_on_without(spec: Json) -> bool:
    """Whether a worker that failed for good may be left alone while the job goes on."""
    return bool(spec.get("enableDynamicWorker")) or spec.get("maxFailedWorkers") is not None


def enough_succeeded(spec: Json, size: int, completed: Collection[int], failed: Collection[int]) -> bool:
    """Return whether enough workers have succeeded for the success of the job, if the workers decide the success."""
    if spec.get("minSucceededWorkers") is not None:
        return len(completed) >= _needed(spec, size)
    if spec.get("successPolicy") != "AllWorkers":
        return 0 in completed
    spared = len(failed) if len(failed) <= _tolerated(spec, size) else 0
    return len(completed) > 0 and len(completed) + spared >= size


def too_many_failed(spec: Json, size: int, completed: Collection[int], failed: Collection[int], *, led: bool) -> bool:
    """Whether the job must fail for the workers that failed for good. `led`: it has a chief."""
    if not failed:
        return False
    any_number = spec.get("maxFailedWorkers") is None and bool(spec.get("enableDynamicWorker"))
    if not any_number and len(failed) > _tolerated(spec, size):
        return True
    if spec.get("minSucceededWorkers") is not None:
        return size - len(failed) < _needed(spec, size)
    if led:
        return False
    # Without worker 0 a job that it leads could not succeed any more.
    leader_lost = not any_number and spec.get("successPolicy") != "AllWorkers" and 0 in failed
    return leader_lost or len(failed) + len(completed) >= size


def _needed(spec: Json, size: int) -> int:
    return min(max(math.ceil(_share(spec["minSucceededWorkers"], size)), 1), size)


def _tolerated(spec: Json, size: int) -> int:
    return math.floor(_share(spec.get("maxFailedWorkers") or 0, size))


def _share(share: int | str, size: int) -> float:
    return int(share.removesuffix("%")) * size / 100 if isinstance(share, str) else share
