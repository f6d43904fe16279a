from tests.contract.support import PODS, TFJOBS, Space, pod, refused, tfjob
from tfoperator.kube.errors import ConflictError

STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def test_a_new_tfjob_has_no_status(space: Space) -> None:
    assert "status" not in space.create(TFJOBS, {**tfjob("a"), "status": STARTED})


def test_the_main_endpoint_leaves_the_status_alone(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    observed = space.set_status(TFJOBS, "a", STARTED)
    patched = space.patch(TFJOBS, "a", {"status": {"startTime": None}, "metadata": {"labels": {"x": "y"}}})
    replaced = space.replace(TFJOBS, {**patched, "status": {}})
    assert observed["status"] == patched["status"] == replaced["status"] == STARTED


def test_the_status_endpoint_changes_nothing_but_the_status_of_a_tfjob(space: Space) -> None:
    made = space.create(TFJOBS, tfjob("a"))

    body = {"metadata": {"labels": {"x": "y"}}, "spec": {"runPolicy": {"suspend": True}}, "status": STARTED}
    patched = space.patch(TFJOBS, "a", body, subresource="status")

    assert patched["status"] == STARTED
    assert patched["spec"] == made["spec"]
    assert "labels" not in patched["metadata"]
    assert patched["metadata"]["generation"] == made["metadata"]["generation"]


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


def test_a_status_write_that_changes_nothing_keeps_the_version(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    first = space.set_status(TFJOBS, "a", STARTED)
    second = space.set_status(TFJOBS, "a", STARTED)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


def test_a_status_can_be_read_on_its_own_path(space: Space) -> None:
    made = space.create(TFJOBS, tfjob("a"))
    answer = space.http("GET", space.path(TFJOBS, "a", "status"))
    assert answer.body["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_new_pod_is_pending_whatever_it_says(space: Space) -> None:
    made = space.create(PODS, {**pod("a"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"


def test_a_pods_status_and_spec_have_an_endpoint_each(space: Space) -> None:
    space.create(PODS, pod("a"))

    main = space.patch(PODS, "a", {"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}})
    status = space.patch(
        PODS, "a", {"status": {"phase": "Running"}, "spec": {"nodeName": "sneaky"}}, subresource="status"
    )

    assert (main["status"]["phase"], main["metadata"]["labels"]) == ("Pending", {"x": "y"})
    assert status["status"]["phase"] == "Running"
    assert "nodeName" not in status["spec"]
