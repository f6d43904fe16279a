"""The CRD's CEL rules about names and replica types, each for new jobs and for changes.

An API server checks a job's rules at every write, also at one of its status, and forgives what an object already was
only where it can compare old and new: not in a pod template, whose members it doesn't know all. A rule that a stored
job breaks would keep the operator from telling that in the job's status. So a rule has two halves. One holds for a job
as a whole as long as it has no status, which is when it is created. The other, a transition rule, is about what a
change brings in: what was there before is let be.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tfoperator.api.names import MAX_NAME_LENGTH, TENSORBOARD_SUFFIX
from tfoperator.api.rules import NAME_PATTERN
from tfoperator.api.v1.types import ReplicaType

__all__ = ["REPLICA_RULES", "V1_RULES", "TwoRules", "cel_rule", "new_job_rules", "replica_rules"]


def cel_rule(rule: str, message: str, reason: str = "FieldValueInvalid", **more: str) -> dict[str, str]:
    """An entry of `x-kubernetes-validations`."""
    return {"rule": rule, "message": message, "reason": reason, **more}


class TwoRules(msgspec.Struct, frozen=True):
    """One demand, as the rule of a new job, at its root, and as the rule of a change, at the field."""

    on_create: dict[str, str]
    on_change: dict[str, str]


def _for_new_jobs(rule: str, message: str, path: str, reason: str = "FieldValueInvalid") -> dict[str, str]:
    # The messages are fixed: what a computed one might cost is estimated beyond the budget.
    return cel_rule(f"has(self.status) || {rule}", message, reason, fieldPath=path)


def _replica_rule(whole: str, change: str, message: str, reason: str = "FieldValueInvalid") -> TwoRules:
    """`whole` speaks of {all}, the replica specs."""
    path = "self.spec.tfReplicaSpecs"
    return TwoRules(
        _for_new_jobs(whole.replace("{all}", path), message, ".spec.tfReplicaSpecs", reason),
        cel_rule(change, message, reason),
    )


_IS_PS = "type.lowerAscii() == 'ps'"


def _has_both(one: str, other: str) -> str:
    return " && ".join(f"{{all}}.exists(type, type.lowerAscii() == '{name.lower()}')" for name in (one, other))


def replica_rules(types: Iterable[str], exclusive: Iterable[tuple[str, str, str]]) -> tuple[TwoRules, ...]:
    """The demands on the replica types of a version that knows these.

    `exclusive` are those of which a job may have one or the other, and why.
    """
    names = list(types)
    known = f"type.lowerAscii() in [{', '.join(repr(name.lower()) for name in names)}]"
    return (
        _replica_rule(
            f"{{all}}.all(type, {known})",
            f"self.all(type, type in oldSelf || {known})",
            f"replica types are {', '.join(names)}",
        ),
        _replica_rule(
            "{all}.all(type, {all}.exists_one(other, other.lowerAscii() == type.lowerAscii()))",
            "self.all(type, type in oldSelf || self.exists_one(other, other.lowerAscii() == type.lowerAscii()))",
            "each replica type may be named only once, whatever its case",
        ),
        *(
            _replica_rule(
                f"!({_has_both(one, other)})",
                f"self.all(type, type in oldSelf) || !({_has_both(one, other).replace('{all}', 'self')})",
                f"must not have both {one} and {other}: {why}",
                "FieldValueForbidden",
            )
            for one, other, why in exclusive
        ),
        _replica_rule(
            f"{{all}}.all(type, {_IS_PS} || has({{all}}[type].template))",
            f"self.all(type, {_IS_PS} || has(self[type].template) || type in oldSelf && !has(oldSelf[type].template))",
            f"template is required for every replica type but {ReplicaType.PS}",
            "FieldValueRequired",
        ),
    )


# The names of one type's replicas all fit if that of its highest index does.
_HIGHEST = "string(self.spec.tfReplicaSpecs[type].replicas > 1 ? self.spec.tfReplicaSpecs[type].replicas - 1 : 0)"

_BOARD_FITS = f"!has(self.spec.tensorBoard) || size(self.metadata.name) <= {MAX_NAME_LENGTH - len(TENSORBOARD_SUFFIX)}"
_BOARD_TOO_LONG = (
    f"metadata.name is too long: {{name}}{TENSORBOARD_SUFFIX} must have at most {MAX_NAME_LENGTH} characters"
)


def new_job_rules(replicas: Iterable[TwoRules], type_size: str = "size(type)") -> list[dict[str, str]]:
    """What holds for a job as a whole, as long as it has no status, new at each call.

    `type_size` is CEL for the length of a replica type's name in v1, by which objects are named.
    """
    length = f"size(self.metadata.name) + {type_size} + size({_HIGHEST}) + 2"
    return [
        _for_new_jobs(
            f"self.metadata.name.matches('{NAME_PATTERN}')",
            "metadata.name must consist of lower-case letters, digits and '-', start with a letter and end with a "
            "letter or digit",
            ".metadata.name",
        ),
        _for_new_jobs(
            f"self.spec.tfReplicaSpecs.all(type, {length} <= {MAX_NAME_LENGTH})",
            f"metadata.name is too long: {{name}}-{{type}}-{{index}} must have at most {MAX_NAME_LENGTH} characters",
            ".metadata.name",
        ),
        *(dict(rule.on_create) for rule in replicas),
    ]


REPLICA_RULES = replica_rules(
    ReplicaType, [(ReplicaType.CHIEF, ReplicaType.MASTER, "they are two names for the one that leads")]
)

V1_RULES = (
    *new_job_rules(REPLICA_RULES),
    _for_new_jobs(_BOARD_FITS, _BOARD_TOO_LONG, ".metadata.name"),
    cel_rule(f"has(oldSelf.spec.tensorBoard) || {_BOARD_FITS}", _BOARD_TOO_LONG, fieldPath=".metadata.name"),
)
"""What holds for a v1 job as a whole: when it is made, and when it is changed."""
