from tests.unit.api.samples import tfjob
from tfoperator.api.conversion import without_server_fields

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def test_a_manifest_has_nothing_that_an_api_server_writes() -> None:
    job = tfjob({"Worker": {}})
    written = {
        "uid": "u", "resourceVersion": "7", "selfLink": "/x", "clusterName": "c", "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [],
    }  # fmt: skip
    kept = {"name": "mnist", "namespace": "team", "labels": {"a": "b"}, "ownerReferences": [{"uid": "other"}]}
    job["metadata"] = {**kept, **written, "annotations": {LAST_APPLIED: "{}", "mine": "x"}}
    plain = without_server_fields(job)
    assert plain.obj["metadata"] == {**kept, "annotations": {"mine": "x"}}
    [note] = plain.notes
    assert all(f"metadata.{name}" in note.message for name in written)
    assert LAST_APPLIED in note.message
    job["metadata"]["annotations"] = {LAST_APPLIED: "{}"}
    assert without_server_fields(job).obj["metadata"] == kept


def test_a_manifest_of_a_person_is_left_as_it_is() -> None:
    job = tfjob({"Worker": {}})
    assert without_server_fields(job).obj == job
    assert without_server_fields(job).notes == ()
    assert without_server_fields({"metadata": 3}).obj == {"metadata": 3}
