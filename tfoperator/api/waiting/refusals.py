"""Finds the reason in the message with which an API server refuses to create an object of a replica.

In most cases, only the message of the API server shows the cause, and not the status code. Each pattern here matches
the text of one of Kubernetes' own admission plugins, from 1.24 to 1.37. The reason leaves out the parts of the message
that change from one try to the next (the name of the pod, the used amount), so that it stays the same.
"""

from __future__ import annotations

import re

from tfoperator.api.waiting.reason import Reason, ReasonKind, words
from tfoperator.kube.protocol.errors import ApiError, BadRequestError, ForbiddenError, InvalidError, KubeError

_FORBIDDEN = re.compile(r"^\S+ \"[^\"]*\" is forbidden: ", re.DOTALL)
_QUOTA = re.compile(r"exceeded quota: (?P<quota>[^,\s]+), requested: (?P<asks>\S+), used: \S+, limited: (?P<has>\S+)")
_QUOTA_NEEDS = re.compile(r"failed quota: (?P<quota>[^:\s]+): must specify (?P<what>.+)", re.DOTALL)
_LIMIT = re.compile(r"(?:maximum|minimum) \S+ usage per \w+ is|max limit to request ratio per \w+ is")
_LIMITS = re.compile(r", (?=(?:maximum|minimum) \S+ usage per |\S+ max limit to request ratio per )")
_SECURITY = re.compile(r"violates PodSecurity \"(?P<level>[^\"]+)\": (?P<what>.+)", re.DOTALL)
_WEBHOOK = re.compile(
    r"admission webhook \"(?P<who>[^\"]+)\" denied the request(?: without explanation|: (?P<what>.*))?", re.DOTALL
)
_POLICY = re.compile(
    r"ValidatingAdmissionPolicy '(?P<who>[^']+)' with binding '[^']*' denied request(?:: (?P<what>.*))?", re.DOTALL
)
_WEBHOOK_FAILS = re.compile(r"failed calling webhook \"(?P<who>[^\"]+)\"")
_ACCOUNT = re.compile(r"error looking up service account (?P<who>\S+): .*not found")
_PRIORITY = re.compile(r"no PriorityClass with name (?P<who>\S+) was found")
_RUNTIME_CLASS = re.compile(r"RuntimeClass \"(?P<who>[^\"]+)\" not found")
_NO_RIGHT = re.compile(r"User \"[^\"]*\" cannot create resource \"(?P<what>[^\"]+)\"")

_WHOSE = {"pod": "its pod", "service": "its service"}


def refused_by(noun: str, error: KubeError) -> Reason | None:
    """Return why a creation was refused; None for an error that is not about the request, such as an outage.

    `noun` is the kind of the object (`pod`, `service`, `PodGroup`).
    """
    if not isinstance(error, ApiError):
        return None
    what, message = _WHOSE.get(noun, f"the {noun} of its job"), error.status.message
    for find in (_by_resources, _by_policy, _by_name):
        if (reason := find(what, message)) is not None:
            return reason
    if match := _WEBHOOK_FAILS.search(message):
        return Reason(
            ReasonKind.WEBHOOK_FAILS,
            f"the API server can't create {what}, because the admission webhook {words(match['who'])} does not answer",
            "ask an administrator to repair the webhook, or to remove its configuration",
        )
    if not isinstance(error, ForbiddenError | InvalidError | BadRequestError):
        return None
    if match := _NO_RIGHT.search(message):
        return Reason(
            ReasonKind.NO_RIGHTS,
            f"the operator has no right to create {words(match['what'])} in this namespace",
            "ask an administrator to apply the operator's ClusterRole again, and to check that the operator serves "
            "this namespace",
        )
    return Reason(
        ReasonKind.REFUSED,
        f"the API server refuses {what}: {words(_FORBIDDEN.sub('', message))}",
        "correct the field in the job, or ask an administrator to change the rule",
    )


def refused_because_taken(message: str, *, leaves: bool) -> Reason:
    """Return the reason of a replica whose object can't be created because another object has its name.

    `message` names that object and the remedy. `leaves` means that the other object is being deleted, and that this
    takes too long.
    """
    statement, _, remedy = message.partition(". ")
    if leaves:
        return Reason(
            ReasonKind.NAME_LEAVING, words(statement), "remove the object's finalizer, or delete the object by force"
        )
    return Reason(ReasonKind.NAME_TAKEN, words(statement), words(remedy[:1].lower() + remedy[1:]))


def same_words(one: Reason, other: Reason) -> bool:
    """Return whether two reasons have the same kind and words.

    Words with digits (numbers, ids) and the order of words don't count. If the result is True, the older reason stays
    in the condition, because the difference is not important.
    """
    return one.kind is other.kind and _plain_words(one.message) == _plain_words(other.message)


def _plain_words(text: str) -> list[str]:
    return sorted(word for word in re.split(r"[\s,:()\[\]]+", text) if word and not any(map(str.isdigit, word)))


def _by_resources(what: str, message: str) -> Reason | None:
    if match := _QUOTA.search(message):
        return Reason(
            ReasonKind.QUOTA,
            f"ResourceQuota {match['quota']} has no room for {what}, which needs {words(match['asks'])}: the quota "
            f"allows {words(match['has'])} in total",
            "wait until other pods end, request less, or ask an administrator for a larger quota",
        )
    if match := _QUOTA_NEEDS.search(message):
        return Reason(
            ReasonKind.QUOTA,
            f"ResourceQuota {match['quota']} needs values that {what} does not have: {words(match['what'])}",
            "set these resources in the replica's template, or ask an administrator for a LimitRange with defaults",
        )
    if _LIMIT.search(message):
        limits = sorted(_LIMITS.split(_FORBIDDEN.sub("", message).strip("[] .")))
        return Reason(
            ReasonKind.LIMIT_RANGE,
            f"a LimitRange of the namespace refuses {what}: {words(', '.join(limits))}",
            "change the resources in the replica's template, or ask an administrator to change the LimitRange",
        )
    return None


def _by_policy(what: str, message: str) -> Reason | None:
    if match := _SECURITY.search(message):
        return Reason(
            ReasonKind.POD_SECURITY,
            f"the namespace's pod security level {match['level']} refuses {what}: {words(match['what'], 600)}",
            "correct these fields in the replica's template, or ask an administrator for another level of the "
            "namespace (label pod-security.kubernetes.io/enforce)",
        )
    if match := _WEBHOOK.search(message) or _POLICY.search(message):
        why = f": {words(match['what'])}" if match["what"] else ", without a reason"
        who = "the admission policy" if "Policy" in message[: match.end()] else "the admission webhook"
        return Reason(
            ReasonKind.DENIED,
            f"{who} {words(match['who'])} refuses {what}{why}",
            "change the job as the policy demands, or ask the people who manage the policy",
        )
    return None


def _by_name(what: str, message: str) -> Reason | None:
    """Return the reason if the pod names an object that does not exist."""
    if match := _ACCOUNT.search(message):
        namespace, _, name = match["who"].rpartition("/")
        return Reason(
            ReasonKind.NO_SERVICE_ACCOUNT,
            f"{what} needs ServiceAccount {name}, which does not exist in namespace {namespace}",
            "create the ServiceAccount, or correct serviceAccountName in the replica's template",
        )
    if match := _PRIORITY.search(message):
        return Reason(
            ReasonKind.NO_PRIORITY_CLASS,
            f"{what} needs PriorityClass {match['who']}, which does not exist",
            "create the PriorityClass, or correct priorityClassName in the replica's template",
        )
    if match := _RUNTIME_CLASS.search(message):
        return Reason(
            ReasonKind.NO_RUNTIME_CLASS,
            f"{what} needs RuntimeClass {match['who']}, which does not exist",
            "create the RuntimeClass, or correct runtimeClassName in the replica's template",
        )
    return None
