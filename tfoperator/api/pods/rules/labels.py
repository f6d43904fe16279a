"""The rules for labels, annotations and selectors."""

from __future__ import annotations

import re

from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.faults import (
    Fault,
    Faults,
    Json,
    Kind,
    by_rule,
    forbidden,
    invalid,
    items,
    part,
    required,
    text,
    texts,
)

_INT32 = re.compile(r"0|-?[1-9][0-9]*")
_MAX_ANNOTATIONS = 256 * 1024
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def label_faults(field: str, found: Json) -> Faults:
    """Yield the faults of keys and values of labels, or of a selector that names labels."""
    for key, value in found.items():
        yield from by_rule(field, key, name_rules.qualified_name)
        yield from by_rule(field, value or "", name_rules.label_value)


def annotation_faults(field: str, found: Json) -> Faults:
    """Yield the faults of the keys and the size of annotations, and of annotations that Kubernetes reads in a pod."""
    for key in found:
        yield from by_rule(field, key.lower(), name_rules.qualified_name)
    if sum(len(key.encode()) + len((value or "").encode()) for key, value in found.items()) > _MAX_ANNOTATIONS:
        yield Fault(field, Kind.TOO_LONG, detail=f"must have at most {_MAX_ANNOTATIONS} bytes together")
    cost = found.get(_DELETION_COST)
    if cost and not (_INT32.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        yield invalid(f"{field}[{_DELETION_COST}]", cost, "must be a whole number of 32 bits")


def selector(field: str, found: Json | None) -> Faults:
    """Yield the faults of a label selector."""
    yield from label_faults(f"{field}.matchLabels", part(found, "matchLabels"))
    for position, expression in enumerate(items(found, "matchExpressions")):
        at = f"{field}.matchExpressions[{position}]"
        yield from requirement(at, expression)
        yield from by_rule(f"{at}.key", text(expression, "key"), name_rules.qualified_name)
        for index, value in enumerate(texts(expression, "values")):
            yield from by_rule(f"{at}.values[{index}]", value, name_rules.label_value)


def requirement(at: str, expression: Json, *, compares: bool = False) -> Faults:
    """Yield the faults of one requirement of a selector; with `compares`, it may have the operators Gt and Lt, too."""
    operator, values = text(expression, "operator"), texts(expression, "values")
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{at}.values", "the operators In and NotIn need values")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{at}.values", "must not be set with the operators Exists and DoesNotExist")
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{at}.values", "the operators Gt and Lt need a single value")
    else:
        yield invalid(f"{at}.operator", operator, "must be an operator of selectors")
