"""The names of replica types in v1alpha2 and in v1, in both directions: two keys of a job never get the same name.

| v1alpha2 | v1 | |
|---|---|---|
| `Eval` | `Evaluator` | later releases of v1alpha2 say `Evaluator`, too |
| `Chief`, `Master` | the same | both versions have two names for the replica that leads |
| `Local` | `Worker` | v1alpha2's type for training that isn't distributed: in v1 a job of one worker |

If an object has several spellings of one type, only one of the spellings can become the other version's name. The
annotation of the module `preserved` keeps the spelling that the original object has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from tfoperator.api.replicas.names import parse_replica_type
from tfoperator.api.v1.choices import ReplicaType

EVAL = "Eval"
LOCAL = "Local"

_TO_V1 = {EVAL.lower(): ReplicaType.EVALUATOR.value, LOCAL.lower(): ReplicaType.WORKER.value}
_TO_V1ALPHA2 = {ReplicaType.EVALUATOR: EVAL}


def v1_name(name: str) -> str:
    """Return the v1 name of a v1alpha2 replica type; any other name stays unchanged."""
    return _TO_V1.get(name.lower(), name)


def v1alpha2_name(name: str) -> str:
    """Return the v1alpha2 name of a v1 replica type; any other name stays unchanged."""
    replica_type = parse_replica_type(name)
    return name if replica_type is None else _TO_V1ALPHA2.get(replica_type, name)


def rename(
    names: Iterable[str],
    forth: Callable[[str], str],
    back: Callable[[str], str],
    remembered: Mapping[str, str],
) -> dict[str, str]:
    """Return a map from each name to its new name in the target version.

    `forth` converts a name to the target version, and `back` converts it back. `remembered` maps names to new names: a
    new name from `remembered` is used instead of the result of `forth` if `back` converts it to the old name. Names
    that would become equal are not changed. If two names are still equal, no name is changed. So the job keeps all its
    replicas, and validation reports the names.
    """
    wanted: dict[str, str] = {}
    for name in names:
        spelling = remembered.get(name)
        wanted[name] = spelling if spelling is not None and back(spelling) == name else forth(name)
    counts = Counter(wanted.values())
    renamed = {name: new if counts[new] == 1 else name for name, new in wanted.items()}
    return renamed if len(set(renamed.values())) == len(renamed) else {name: name for name in renamed}


def to_remember(renamed: Mapping[str, str], forth: Callable[[str], str], back: Callable[[str], str]) -> dict[str, str]:
    """Return a dict from new names to old names: only those new names for which `back(new)` is not the old name.

    `renamed` maps old names to new names. Return {} if `rename` with `back` gives all old names.
    """
    old_names = {new: old for old, new in renamed.items()}
    if rename(old_names, back, forth, {}) == old_names:
        return {}
    return {new: old for new, old in old_names.items() if back(new) != old}
