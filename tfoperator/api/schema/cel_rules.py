"""The CRD's CEL rules about names and replica types, each for new jobs and for changes.

An API server checks a job's rules at every write, also at a write of its status. It accepts an old violation only if
it can compare the old value with the new value. In a pod template it can't, because it doesn't know all members of the
template. So if a stored job violated a rule, the operator could not report that in the job's status. Therefore a rule
has two halves. One half applies to a whole job without a status, that is, at its creation. The other half, a transition
rule, applies to the additions of a change: it accepts older values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tfoperator.api.fields.limits import MAX_NAME_LENGTH, NAME_PATTERN
from tfoperator.api.replicas.data_service import LONGEST_MEMBER
from tfoperator.api.replicas.names import LONGEST_SUFFIX, TENSORBOARD_SUFFIX
from tfoperator.api.v1.choices import ReplicaType

_INVALID = "FieldValueInvalid"


def cel_rule(rule: str, message: str, reason: str = _INVALID, *, expression: str = "", **more: str) -> dict[str, str]:
    """Return an entry of `x-kubernetes-validations`. If `reason` is the default of API servers, it is left out.

    `expression` is CEL for a message that names the violation. `message` replaces it where it can't be evaluated: on
    one line, in at most 5 KiB.
    """
    members = {"rule": rule, "message": message, "reason": reason, "messageExpression": expression, **more}
    return {name: value for name, value in members.items() if value not in ("", _INVALID)}


def unchangeable_rule(value: str, **more: str) -> dict[str, str]:
    """Return the rule that a value stays as it is: `value` is CEL, in which {0} is the object that has the value."""
    old, new = value.format("oldSelf"), value.format("self")
    expression = f"""'can\\'t be changed from "' + {old} + '" to "' + {new} + '"'"""
    return cel_rule(f"{new} == {old}", "can't be changed", "FieldValueForbidden", expression=expression, **more)


def one_of_rule(values: Sequence[str]) -> dict[str, str]:
    """Return the rule that a text is one of these values."""
    demand = f"must be {' or '.join(values)}"
    return cel_rule(
        f"self in [{', '.join(map(repr, values))}]", demand, expression=f"'{demand}, but is \"' + self + '\"'"
    )


class TwoRules(msgspec.Struct, frozen=True):
    """One demand in two rules: the rule of a new job, at its root, and the rule of a change, at the field."""

    on_create: dict[str, str]
    on_change: dict[str, str]


_PATH = "self.spec.tfReplicaSpecs"


def _for_new_jobs(
    rule: str, message: str, path: str, reason: str = _INVALID, *, expression: str = ""
) -> dict[str, str]:
    return cel_rule(f"has(self.status) || {rule}", message, reason, expression=expression, fieldPath=path)


def _replica_rule(
    whole: str, change: str, message: str, reason: str = _INVALID, *, expression: tuple[str, str] = ("", "")
) -> TwoRules:
    """Return the two rules. `whole` and `change` are CEL, as are both expressions: for a new job, and for a change."""
    return TwoRules(
        _for_new_jobs(whole, message, ".spec.tfReplicaSpecs", reason, expression=expression[0]),
        cel_rule(change, message, reason, expression=expression[1]),
    )


def expression_of_item(items: str, item: str, good: str, expression: str) -> str:
    """Return CEL for a message about one of `items`, called `item`, that is not `good`.

    API servers estimate the cost of the longest message. They know the maximum length of a key or a named member, but
    not of a comprehension's result. They would refuse to join the bad items, so the message is made within the
    comprehension.
    """
    return f"{items}.map({item}, !({good}), {expression})[0]"


def _each_type(good: str, before: str, message: str, expression: str, reason: str = _INVALID) -> TwoRules:
    """Return rules that each type is `good`, or for a change that it is as `before`.

    In `good`, {all} stands for the replica specs. `expression` is CEL for a message about a type that is not good.
    """
    whole, change = good.replace("{all}", _PATH), f"({before} || {good.replace('{all}', 'self')})"
    return _replica_rule(
        f"{_PATH}.all(type, {whole})",
        f"self.all(type, {change})",
        message,
        reason,
        expression=(
            expression_of_item(_PATH, "type", whole, expression),
            expression_of_item("self", "type", change, expression),
        ),
    )


_IS_PS = "type.lowerAscii() == 'ps'"


def _has_template(specs: str) -> str:
    """Return CEL for: the template is more than `containers: null`, which webhooks in Go make of an absent template.

    In CEL a null member is absent. The schema requires the member `containers`.
    """
    template = f"{specs}[type].template"
    return f"has({template}) && has({template}.spec) && has({template}.spec.containers)"


def _has_both(all_: str, *types: str) -> str:
    return " && ".join(f"{all_}.exists(type, type.lowerAscii() == '{name.lower()}')" for name in types)


def replica_rules(types: Iterable[str], exclusive: Iterable[tuple[str, str, str]]) -> tuple[TwoRules, ...]:
    """Return the demands on the replica types, for a version that has these types.

    `exclusive` are pairs of types of which a job may have only one, with the reason.
    """
    names = list(types)
    choice = f"the types are {', '.join(names)}"
    return (
        _each_type(
            f"type.lowerAscii() in [{', '.join(repr(name.lower()) for name in names)}]",
            "type in oldSelf",
            choice,
            f"type + ' is not a replica type; {choice}'",
        ),
        _each_type(
            "{all}.exists_one(other, other.lowerAscii() == type.lowerAscii())",
            "type in oldSelf",
            "names a replica type more than once, whatever its case",
            "'names ' + type.lowerAscii() + ' more than once, whatever its case'",
        ),
        *(
            _replica_rule(
                f"!({_has_both(_PATH, first, second)})",
                f"self.all(type, type in oldSelf) || !({_has_both('self', first, second)})",
                f"must not have both {first} and {second}: {why}",
                "FieldValueForbidden",
            )
            for first, second, why in exclusive
        ),
        _each_type(
            f"({_IS_PS} || {_has_template('{all}')})",
            f"type in oldSelf && !({_has_template('oldSelf')})",
            f"template is required for every replica type but {ReplicaType.PS}",
            f"'template is required for ' + type + ', as for every replica type but {ReplicaType.PS}'",
            "FieldValueRequired",
        ),
    )


# The names of one type's replicas all fit if the name with the highest index fits.
_HIGHEST_INDEX = f"string({_PATH}[type].replicas > 1 ? {_PATH}[type].replicas - 1 : 0)"


def _too_long(made: str, quote: str = "") -> str:
    return f'{quote}is too long: "{made}", made from it, must have at most {MAX_NAME_LENGTH} characters{quote}'


def _fits(type_name: str) -> str:
    return f"size(self.metadata.name) + size({type_name}) + size({_HIGHEST_INDEX}) + 2 <= {MAX_NAME_LENGTH}"


_NAME_TOO_LONG = _too_long("{name}-{type}-{index}")

_BOARD_FITS = f"!has(self.spec.tensorBoard) || size(self.metadata.name) <= {MAX_NAME_LENGTH - len(TENSORBOARD_SUFFIX)}"
_BOARD_TOO_LONG = _too_long(f"{{name}}{TENSORBOARD_SUFFIX}")
_BOARD_TOLD = _too_long(f"' + self.metadata.name + '{TENSORBOARD_SUFFIX}", "'")

_MEMBERS_FIT = f"!has(self.spec.dataService) || size(self.metadata.name) <= {MAX_NAME_LENGTH - len(LONGEST_MEMBER)}"
_MEMBERS_TOO_LONG = _too_long(f"{{name}}{LONGEST_MEMBER}")
_MEMBERS_EXPRESSION = _too_long(f"' + self.metadata.name + '{LONGEST_MEMBER}", "'")


def new_job_rules(replicas: Iterable[TwoRules], type_name: str = "type.lowerAscii()") -> list[dict[str, str]]:
    """Return the rules for a whole job, as long as it has no status, new at each call.

    `type_name` is CEL for the type's name in names of objects: a replica type's name in v1, in lower case.
    """
    fits = _fits(type_name)
    proper = "must consist of lower-case letters, digits and '-', start with a letter and end with a letter or digit"
    return [
        _for_new_jobs(
            f"self.metadata.name.matches('{NAME_PATTERN}')",
            proper,
            ".metadata.name",
            expression=f'"{proper}, but is \\"" + self.metadata.name + "\\""',
        ),
        _for_new_jobs(
            f"{_PATH}.all(type, {fits})",
            _NAME_TOO_LONG,
            ".metadata.name",
            expression=expression_of_item(
                _PATH, "type", fits, _too_long(f"' + self.metadata.name + '-' + {type_name} + '-{{index}}", "'")
            ),
        ),
        *(dict(rule.on_create) for rule in replicas),
    ]


def larger_job_rule(type_name: str = "type.lowerAscii()") -> dict[str, str]:
    """Return the rule for a job that gets more replicas, from a user or an autoscaler: their names must fit.

    A job with too long names would stay as it is until a user fixes it. Most names are short enough for any
    number of replicas. For them the rule checks nothing else: the rest may be invalid in a job that is older than the
    rules, and then even the job's status could not be written.
    """
    old = "oldSelf.spec.tfReplicaSpecs"
    short = f"size(self.metadata.name) <= {MAX_NAME_LENGTH - LONGEST_SUFFIX}"
    no_more = f"(type in {old} && {_PATH}[type].replicas <= {old}[type].replicas)"
    rule = f"{short} || {_PATH}.all(type, {no_more} || {_fits(type_name)})"
    return cel_rule(rule, _NAME_TOO_LONG, fieldPath=".metadata.name")


LEADER_NAMES = "they are two names for the one that leads"
"""Why a job can't have both a Chief and a Master, in every version."""

REPLICA_RULES = replica_rules(ReplicaType, [(ReplicaType.CHIEF, ReplicaType.MASTER, LEADER_NAMES)])

V1_RULES = (
    *new_job_rules(REPLICA_RULES),
    _for_new_jobs(_BOARD_FITS, _BOARD_TOO_LONG, ".metadata.name", expression=_BOARD_TOLD),
    cel_rule(
        f"has(oldSelf.spec.tensorBoard) || {_BOARD_FITS}",
        _BOARD_TOO_LONG,
        expression=_BOARD_TOLD,
        fieldPath=".metadata.name",
    ),
    _for_new_jobs(_MEMBERS_FIT, _MEMBERS_TOO_LONG, ".metadata.name", expression=_MEMBERS_EXPRESSION),
    cel_rule(
        f"has(oldSelf.spec.dataService) || {_MEMBERS_FIT}",
        _MEMBERS_TOO_LONG,
        expression=_MEMBERS_EXPRESSION,
        fieldPath=".metadata.name",
    ),
    larger_job_rule(),
)
"""The rules for a whole v1 job: at its creation, and at each change."""
