from tests.contract.support import PODS, TFJOBS, Space, pod, refused, tfjob
from tfoperator.kube.protocol.errors import ConflictError

STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def test_a_tfjobs_status_and_the_rest_of_it_have_an_endpoint_each(space: Space) -> None:
    made = space.create(TFJOBS, {**tfjob("a"), "status": STARTED})
    assert "status" not in made
    body = {"metadata": {"labels": {"x": "y"}}, "spec": {"runPolicy": {"suspend": True}}, "status": STARTED}
    observed = space.patch(TFJOBS, "a", body, subresource="status")
    assert (observed["status"], observed["spec"]) == (STARTED, made["spec"])
    assert "labels" not in observed["metadata"]
    assert observed["metadata"]["generation"] == made["metadata"]["generation"]
    same = space.set_status(TFJOBS, "a", STARTED)
    assert same["metadata"]["resourceVersion"] == observed["metadata"]["resourceVersion"], "nothing has changed"
    patched = space.patch(TFJOBS, "a", {"status": {"startTime": None}, "metadata": {"labels": {"x": "y"}}})
    replaced = space.replace(TFJOBS, {**patched, "status": {}})
    assert patched["status"] == replaced["status"] == STARTED
    shown = space.http("GET", space.path(TFJOBS, "a", "status")).body
    assert shown["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_status_can_be_replaced(space: Space) -> None:
    made = space.create(TFJOBS, tfjob("a"))
    first = space.replace(TFJOBS, {**made, "status": STARTED}, subresource="status")
    with refused(ConflictError):
        space.replace(TFJOBS, {**made, "status": {}}, subresource="status")
    assert first["status"] == STARTED
    assert space.get(TFJOBS, "a")["status"] == STARTED


def test_a_status_patch_holds_for_the_version_that_it_names_and_a_uid_in_it_means_nothing(space: Space) -> None:
    made = space.create(TFJOBS, tfjob("a"))
    other = "00000000-0000-0000-0000-000000000000"
    patched = space.patch(TFJOBS, "a", {"metadata": {"uid": other}, "status": STARTED}, subresource="status")
    with refused(ConflictError):
        old = {"resourceVersion": made["metadata"]["resourceVersion"]}
        space.patch(TFJOBS, "a", {"metadata": old, "status": {"startTime": None}}, subresource="status")

    assert patched["status"] == STARTED
    assert patched["metadata"]["uid"] == made["metadata"]["uid"]
    assert space.get(TFJOBS, "a")["status"] == STARTED


def test_a_pods_status_and_spec_have_an_endpoint_each(space: Space) -> None:
    made = space.create(PODS, {**pod("a"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending", "whatever it says"
    main = space.patch(PODS, "a", {"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}})
    assert (main["status"]["phase"], main["metadata"]["labels"]) == ("Pending", {"x": "y"})
    sneaky = {"status": {"phase": "Running"}, "spec": {"nodeName": "sneaky"}}
    status = space.patch(PODS, "a", sneaky, subresource="status")
    assert status["status"]["phase"] == "Running"
    assert "nodeName" not in status["spec"]
