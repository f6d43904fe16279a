"""Reviews: objects with which a client asks for its permissions or its identity. A client with the token may do
everything.

`kubectl auth can-i`, `whoami`, and clients that check their permissions before they do something create reviews. The
server responds to reviews, and does not store them.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping

from tfoperator.local.apiserver.errors import FieldProblem, bad_request, invalid, invalid_value, method_not_allowed
from tfoperator.local.apiserver.http.url_paths import ResourcePath
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.resource_types import ResourceType

USER = "tfoperator-local"
"""The user to which the token belongs. The kubeconfig has the same name for this user."""

_ADMINISTRATORS = "system:masters"
"""The group whose members may do everything, in every Kubernetes cluster."""

_USER_INFO = {"username": USER, "groups": [_ADMINISTRATORS, "system:authenticated"]}
_ANY = ["*"]
_UNNAMED = ResourceType("authorization.k8s.io", "v1", "", "")
"""The resource that an error names if a review is refused. As in kube-apiserver, it has only the group."""


def _attribute_problems(spec: Json) -> Iterator[FieldProblem]:
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        problem = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid_value("spec", None, problem)


def _refuse(problems: Iterable[FieldProblem]) -> None:
    if all_problems := list(problems):
        raise invalid(_UNNAMED, "", all_problems)


def _own_access(spec: Json, _: str) -> Json:
    _refuse(_attribute_problems(spec))
    return {"allowed": True}


def _access_of_a_subject(spec: Json, _: str) -> Json:
    """Return the status of a SubjectAccessReview: the user of this server's token and administrators may do everything,
    and all other users nothing.
    """
    user, groups = spec.get("user"), spec.get("groups") or ()
    problems = list(_attribute_problems(spec))
    if not user and not groups:
        problems.append(invalid_value("spec.user", "", "at least one of user or group must be specified"))
    _refuse(problems)
    return {"allowed": user == USER or _ADMINISTRATORS in groups}


def _rules(spec: Json, _: str) -> Json:
    if not spec.get("namespace"):
        raise bad_request("no namespace on request")
    return {
        "incomplete": False,
        "resourceRules": [{"verbs": _ANY, "apiGroups": _ANY, "resources": _ANY}],
        "nonResourceRules": [{"verbs": _ANY, "nonResourceURLs": _ANY}],
    }


def _self(_spec: Json, _: str) -> Json:
    return {"userInfo": _USER_INFO}


def _token(spec: Json, token: str) -> Json:
    given = spec.get("token")
    if not given:
        raise bad_request("token is required for TokenReview in authentication")
    is_valid = hmac.compare_digest(str(given).encode("utf-8", "surrogatepass"), token.encode())
    return {"authenticated": True, "user": _USER_INFO} if is_valid else {"error": "invalid bearer token"}


def _type(group: str, kind: str) -> ResourceType:
    plural = f"{kind.lower()}s"
    return ResourceType(group, "v1", kind, plural, namespaced=False, verbs=("create",))


_REVIEWS: Mapping[ResourceType, Callable[[Json, str], Json]] = {
    _type("authorization.k8s.io", "SelfSubjectAccessReview"): _own_access,
    _type("authorization.k8s.io", "SelfSubjectRulesReview"): _rules,
    _type("authorization.k8s.io", "SubjectAccessReview"): _access_of_a_subject,
    _type("authentication.k8s.io", "SelfSubjectReview"): _self,
    _type("authentication.k8s.io", "TokenReview"): _token,
}
_BY_PATH = {ResourcePath(review.group, review.version, review.plural): review for review in _REVIEWS}

REVIEWS = tuple(_REVIEWS)
"""The types of reviews, for discovery."""


def review_at(path: ResourcePath) -> ResourceType | None:
    """Return the type of review in a path. Return None if the path contains another type."""
    return _BY_PATH.get(path)


def reviewed(resource: ResourceType, method: str, body: Json, token: str) -> Json:
    """Return the review, completed with its `status`.

    `token` is the token of this server: a TokenReview asks whether another token is equal to it. Raises StatusError 405
    if `method` is not POST, and 400 or 422 if the review is invalid.
    """
    if method != "POST":
        raise method_not_allowed()
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request("the spec of a review must be an object")
    metadata = {"creationTimestamp": None}
    header = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata, "spec": spec}
    return {**header, "status": _REVIEWS[resource](spec, token)}
