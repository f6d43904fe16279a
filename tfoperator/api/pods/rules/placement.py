"""The rules for the fields that decide on a pod's node: selectors, affinities, tolerations and spreading."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.faults import (
    Fault,
    Faults,
    Json,
    Kind,
    by_rule,
    choice,
    duplicate,
    forbidden,
    invalid,
    items,
    part,
    required,
    text,
    texts,
    within,
)
from tfoperator.api.pods.rules.labels import label_faults, requirement, selector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def placement_faults(spec: Json, path: str, pod_labels: Collection[str]) -> Faults:
    """Yield the faults of the fields that determine the node of a pod.

    `path` is the path of the pod's spec, and `pod_labels` has the keys of the pod's labels.
    """
    yield from label_faults(f"{path}.nodeSelector", part(spec, "nodeSelector"))
    affinity, at = part(spec, "affinity"), f"{path}.affinity"
    yield from _node_affinity_faults(f"{at}.nodeAffinity", part(affinity, "nodeAffinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity_faults(f"{at}.{kind}", part(affinity, kind), pod_labels)
    for position, toleration in enumerate(items(spec, "tolerations")):
        yield from _toleration_faults(f"{path}.tolerations[{position}]", toleration)
    constraints = items(spec, "topologySpreadConstraints")
    for position, constraint in enumerate(constraints):
        field = f"{path}.topologySpreadConstraints[{position}]"
        yield from _spread_faults(field, constraint, constraints[position + 1 :], pod_labels)


def _node_affinity_faults(at: str, affinity: Json) -> Faults:
    demands = affinity.get(_REQUIRED)
    if demands is not None:
        terms = items(demands, "nodeSelectorTerms")
        if not terms:
            yield required(f"{at}.{_REQUIRED}.nodeSelectorTerms", "needs a description of nodes")
        for position, term in enumerate(terms):
            yield from _node_term_faults(f"{at}.{_REQUIRED}.nodeSelectorTerms[{position}]", term, values=True)
    for position, wish in enumerate(items(affinity, _PREFERRED)):
        field = f"{at}.{_PREFERRED}[{position}]"
        yield from within(f"{field}.weight", wish.get("weight") or 0, 1, 100)
        yield from _node_term_faults(f"{field}.preference", part(wish, "preference"), values=False)


def _node_term_faults(at: str, term: Json, *, values: bool) -> Faults:
    for position, expression in enumerate(items(term, "matchExpressions")):
        field = f"{at}.matchExpressions[{position}]"
        yield from requirement(field, expression, compares=True)
        yield from by_rule(f"{field}.key", text(expression, "key"), name_rules.qualified_name)
        for index, value in enumerate(texts(expression, "values") if values else ()):
            yield from by_rule(f"{field}.values[{index}]", value, name_rules.label_value)
    for position, expression in enumerate(items(term, "matchFields")):
        field, operator = f"{at}.matchFields[{position}]", text(expression, "operator")
        if operator not in ("In", "NotIn"):
            yield invalid(f"{field}.operator", operator, "must be In or NotIn")
        elif len(texts(expression, "values")) != 1:
            yield required(f"{field}.values", "must be a single value")
        if text(expression, "key") != "metadata.name":
            yield invalid(f"{field}.key", text(expression, "key"), "must be metadata.name")
            continue
        for index, value in enumerate(texts(expression, "values")):
            yield from by_rule(f"{field}.values[{index}]", value, name_rules.dns_subdomain)


def _pod_affinity_faults(at: str, affinity: Json, pod_labels: Collection[str]) -> Faults:
    for position, term in enumerate(items(affinity, _REQUIRED)):
        yield from _pod_term_faults(f"{at}.{_REQUIRED}[{position}]", term, pod_labels)
    for position, wish in enumerate(items(affinity, _PREFERRED)):
        field = f"{at}.{_PREFERRED}[{position}]"
        yield from within(f"{field}.weight", wish.get("weight") or 0, 1, 100)
        yield from _pod_term_faults(f"{field}.podAffinityTerm", part(wish, "podAffinityTerm"), pod_labels)


def _pod_term_faults(at: str, term: Json, pod_labels: Collection[str]) -> Faults:
    yield from selector(f"{at}.labelSelector", term.get("labelSelector"))
    yield from selector(f"{at}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in texts(term, "namespaces"):
        yield from by_rule(f"{at}.namespace", namespace, name_rules.dns_label)
    yield from _label_key_faults(at, term, pod_labels)
    key = text(term, "topologyKey")
    if not key:
        yield required(f"{at}.topologyKey")
    else:
        yield from by_rule(f"{at}.topologyKey", key, name_rules.qualified_name)


def _label_key_faults(at: str, term: Json, pod_labels: Collection[str]) -> Faults:
    """Yield the faults of `matchLabelKeys` and `mismatchLabelKeys`, whose keys name labels of the pod itself."""
    chosen, match_keys = term.get("labelSelector"), texts(term, "matchLabelKeys")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = texts(term, field)
        if keys and chosen is None:
            yield forbidden(f"{at}.{field}", "needs a labelSelector")
            continue
        for position, key in enumerate(keys):
            yield from by_rule(f"{at}.{field}[{position}]", key, name_rules.qualified_name)
    if chosen is not None:
        yield from _twice_named(at, term, chosen, pod_labels)
    for position, key in enumerate(match_keys):
        if key in texts(term, "mismatchLabelKeys"):
            yield invalid(f"{at}.matchLabelKeys[{position}]", key, "must not be one of mismatchLabelKeys, too")


def _twice_named(at: str, term: Json, chosen: Json, pod_labels: Collection[str]) -> Faults:
    match_keys = texts(term, "matchLabelKeys")
    places = {key: position for position, key in enumerate(match_keys)}
    named = set(part(chosen, "matchLabels"))
    # API servers add an expression for each key that the pod has a label for.
    added = [key for key in (*match_keys, *texts(term, "mismatchLabelKeys")) if key in pod_labels]
    for key in (*(text(expression, "key") for expression in items(chosen, "matchExpressions")), *added):
        if key in places and key in named:
            yield invalid(f"{at}[{places[key]}]", key, "must not be in both matchLabelKeys and labelSelector")
        named.add(key)


def _toleration_faults(at: str, toleration: Json) -> Faults:
    key, operator = text(toleration, "key"), text(toleration, "operator")
    effect, value = text(toleration, "effect"), text(toleration, "value")
    if key:
        yield from by_rule(f"{at}.key", key, name_rules.qualified_name)
    elif operator != "Exists":
        yield invalid(f"{at}.operator", operator, "must be Exists where there is no key")
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{at}.effect", effect, "must be NoExecute where tolerationSeconds is set")
    if operator in ("", "Equal"):
        yield from by_rule(f"{at}.operator", value, name_rules.label_value)
    elif operator == "Exists":
        if value:
            yield invalid(f"{at}.operator", value, "must not be Exists where there is a value")
    else:
        yield Fault(f"{at}.operator", Kind.NOT_SUPPORTED, operator, options=("Equal", "Exists"))
    if effect:
        yield from choice(f"{at}.effect", effect, _EFFECTS)


def _spread_faults(at: str, constraint: Json, later: Sequence[Json], pod_labels: Collection[str]) -> Faults:
    skew, key, action = (
        constraint.get("maxSkew") or 0,
        text(constraint, "topologyKey"),
        text(constraint, "whenUnsatisfiable"),
    )
    if skew <= 0:
        yield invalid(f"{at}.maxSkew", skew, "must be greater than 0")
    if not key:
        yield required(f"{at}.topologyKey")
    yield from choice(f"{at}.whenUnsatisfiable", action, _ACTIONS)
    if any(
        (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable")) == (key, action)
        for constraint in later
    ):
        yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{key}, {action}")
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            yield invalid(f"{at}.minDomains", domains, "must be greater than 0")
        if action != "DoNotSchedule":
            yield invalid(f"{at}.minDomains", domains, "needs whenUnsatisfiable: DoNotSchedule")
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(field) is not None:
            yield from choice(f"{at}.{field}", constraint[field], ("Honor", "Ignore"))
    keys_only = {name: value for name, value in constraint.items() if name != "mismatchLabelKeys"}
    yield from _label_key_faults(at, keys_only, pod_labels)
    yield from selector(f"{at}.labelSelector", constraint.get("labelSelector"))
