"""A client's rights and its name: a client that has the administrator's token may do everything."""

import pytest

from tests.contract.support import Json, Space

AUTHORIZATION = "/apis/authorization.k8s.io/v1"


def review(space: Space, path: str, kind: str, spec: Json) -> tuple[int, Json]:
    group_version = path.removeprefix("/apis/").rpartition("/")[0]
    answer = space.http("POST", path, {"apiVersion": group_version, "kind": kind, "spec": spec})
    return answer.code, answer.body


def test_the_administrator_may_do_everything_reviews_are_not_kept_and_a_client_learns_who_it_is(space: Space) -> None:
    access, rules = (f"{AUTHORIZATION}/selfsubject{what}reviews" for what in ("access", "rules"))
    attributes = {"namespace": space.namespace, "verb": "create", "resource": "pods"}
    code, answer = review(space, access, "SelfSubjectAccessReview", {"resourceAttributes": attributes})
    assert (code, answer["kind"], answer["spec"]["resourceAttributes"]) == (201, "SelfSubjectAccessReview", attributes)
    assert answer["status"]["allowed"] is True
    code, answer = review(space, rules, "SelfSubjectRulesReview", {"namespace": space.namespace})
    assert code == 201
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in answer["status"]["resourceRules"]
    assert [space.http("GET", path).code for path in (access, rules)] == [405, 405]
    code, answer = review(space, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "SelfSubjectReview", {})
    assert code == 201
    assert answer["status"]["userInfo"]["username"]
    assert "system:authenticated" in answer["status"]["userInfo"]["groups"]


@pytest.mark.controlplane
def test_kubectl_is_told(space: Space) -> None:
    assert space.kubectl("auth", "can-i", "create", "tfjobs.kubeflow.org").strip() == "yes"
    assert "*.*" in space.kubectl("auth", "can-i", "--list")
    assert "Username" in space.kubectl("auth", "whoami")


def test_the_rights_of_any_subject_can_be_reviewed(space: Space) -> None:
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    attributes = {"namespace": space.namespace, "verb": "create", "resource": "pods"}
    allowed = {}
    for groups in (["system:masters"], ["system:authenticated"]):
        spec = {"user": "someone", "groups": groups, "resourceAttributes": attributes}
        code, body = review(space, path, "SubjectAccessReview", spec)
        assert (code, body["kind"], body["spec"]["groups"]) == (201, "SubjectAccessReview", groups)
        allowed[groups[0]] = body["status"]["allowed"]
    assert allowed == {"system:masters": True, "system:authenticated": False}


@pytest.mark.parametrize(
    ("kind", "spec", "users"),
    [
        ("SubjectAccessReview", {"resourceAttributes": {"verb": "get"}}, 1),
        ("SubjectAccessReview", {"user": "someone"}, 0),
        ("SubjectAccessReview", {}, 1),
        ("SelfSubjectAccessReview", {}, 0),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/metrics"}},
            0,
        ),
    ],
)
def test_an_incomplete_review_is_refused_with_its_fields(space: Space, kind: str, spec: Json, users: int) -> None:
    code, body = review(space, f"{AUTHORIZATION}/{kind.lower()}s", kind, spec)
    assert code == 422, body
    fields = [cause["field"] for cause in body["details"]["causes"]]
    assert fields.count("spec.user") == users
    # Older releases name the missing member, newer releases name the spec.
    others = [field for field in fields if field != "spec.user"]
    assert bool(others) == (len(spec.keys() & {"resourceAttributes", "nonResourceAttributes"}) != 1)
    assert all(field.startswith("spec") for field in others)
