"""The CRD's CEL rules about names and replica types: each rule has a form for new jobs and a form for changes.

An API server checks a job's rules at every write, also at a write of its status. An API server accepts an old violation
only if it can compare the old value with the new value. In a pod template it can't compare them, because it doesn't
know all members of the template. So if a stored job violated a rule, the operator could not write the violation into
the job's status. Therefore a rule has two halves. One half applies to a whole job without a status. A job has no status
when it is created. The second half, a transition rule, applies to the parts that a change adds: it accepts values that
were there before.
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

    `rule` is CEL, and `more` has further members of the entry, such as `fieldPath`.
    `expression` is CEL: its value is a message that names the violation. If the API server can't evaluate `expression`,
    it uses `message`, which must be on one line, with at most 5 KiB.
    """
    members = {"rule": rule, "message": message, "reason": reason, "messageExpression": expression, **more}
    return {name: value for name, value in members.items() if value not in ("", _INVALID)}


def unchangeable_rule(value: str, **more: str) -> dict[str, str]:
    """Return the rule that a value must not change. `value` is CEL, in which {0} stands for `self` or `oldSelf`."""
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
    """One requirement as two rules.

    The rule for new jobs is in the schema of the whole job, and the rule for changes is in the schema of the field.
    """

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
    """Return the rule for new jobs and the rule for changes.

    `whole` is the CEL for new jobs, and `change` is the CEL for changes. `expression` has the CEL of the message for
    each of them.
    """
    return TwoRules(
        _for_new_jobs(whole, message, ".spec.tfReplicaSpecs", reason, expression=expression[0]),
        cel_rule(change, message, reason, expression=expression[1]),
    )


def expression_of_item(items: str, item: str, good: str, expression: str) -> str:
    """Return CEL for a message about the first of `items` that does not fulfil `good`.

    In the CEL the item is called `item`. API servers estimate the cost of the longest message. They know the maximum
    length of a key or a named member, but not of a comprehension's result. So they would refuse an expression that
    joins the bad items. Therefore the message is made within the comprehension.
    """
    return f"{items}.map({item}, !({good}), {expression})[0]"


def _each_type(good: str, before: str, message: str, expression: str, reason: str = _INVALID) -> TwoRules:
    """Return the rules for each replica type: `good` for a new object, and `good` or `before` for a changed object.

    Both are CEL about the variable `type`. `before` is true for a type that may stay because the old object has it. In
    `good`, {all} stands for the replica specs. `expression` is CEL for the message about a type that does not fulfil
    `good`.
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
    """Return CEL that is true if a template has more than `containers: null`.

    Webhooks written in Go write `containers: null` for an absent template. In CEL a null member is absent, so `has()`
    is false for it. Any other template has `containers`, because the schema requires it.
    """
    template = f"{specs}[type].template"
    return f"has({template}) && has({template}.spec) && has({template}.spec.containers)"


def _has_both(all_: str, *types: str) -> str:
    return " && ".join(f"{all_}.exists(type, type.lowerAscii() == '{name.lower()}')" for name in types)


def replica_rules(types: Iterable[str], exclusive: Iterable[tuple[str, str, str]]) -> tuple[TwoRules, ...]:
    """Return the requirements for the replica types, for an API version that has these types.

    `exclusive` has pairs of types that exclude each other in a job, with the reason.
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
            "names a replica type more than once (Worker and worker are the same type)",
            "'names ' + type.lowerAscii() + ' more than once, in upper or lower case'",
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
    rule = f"the name of an object of the job, must have at most {MAX_NAME_LENGTH} characters"
    return f'{quote}is too long: "{made}", {rule}{quote}'


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
    """Return the rules that apply to a whole job without a status; each call returns new objects.

    `replicas` are the requirements of `replica_rules`: the result includes their rules for new jobs. `type_name` is CEL
    for the replica type as it occurs in the names of pods: the v1 name of the type in lower case.
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
    """Return the rule for a change that adds replicas, by a user or an autoscaler.

    The new replicas' names must not be too long. A job with names that are too long would make no progress until a user
    fixes it. Most job names are short enough for any number of replicas. For these job names the rule checks nothing
    else. A job that is older than the rules may have invalid replica specs, and if the rule checked them, the operator
    could not even write the job's status.
    """
    old = "oldSelf.spec.tfReplicaSpecs"
    short = f"size(self.metadata.name) <= {MAX_NAME_LENGTH - LONGEST_SUFFIX}"
    no_more = f"(type in {old} && {_PATH}[type].replicas <= {old}[type].replicas)"
    rule = f"{short} || {_PATH}.all(type, {no_more} || {_fits(type_name)})"
    return cel_rule(rule, _NAME_TOO_LONG, fieldPath=".metadata.name")


LEADER_NAMES = "they are two names for the same replica type"
"""The reason why a job of any version can't have both a Chief and a Master."""

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
