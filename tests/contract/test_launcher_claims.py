"""Claims that a pipeline makes and deletes, on both API servers."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.support import Space, decode
from tfoperator.kube.protocol.errors import NotFoundError
from tfoperator.kube.protocol.resources import PERSISTENT_VOLUME_CLAIMS
from tfoperator.launcher import Component, LaunchContext, LaunchResult, PermanentFailure
from tfoperator.pipeline.kfp.claims import CLAIM_LABEL, ClaimSpec, KubernetesClaimLauncher

NEW = {"access_modes": ["ReadWriteOnce"], "size": "1Gi", "storage_class_name": ""}


def launch(space: Space, work: Path, action: Any, **parameters: Any) -> LaunchResult:
    component = Component("claim", ClaimSpec(action), exec_properties=parameters)
    context = LaunchContext(work_dir=work, namespace=space.namespace, kube=space.new_client)
    return KubernetesClaimLauncher(component, context=context).launch()


def test_a_claim_is_made_with_all_that_the_task_gives_and_deleted(space: Space, tmp_path: Path) -> None:
    result = launch(
        space,
        tmp_path / "1",
        "create",
        pvc_name_suffix="-data",
        annotations={"example.com/a": "b c"},
        volume_name="disk",
        data_source={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
        **NEW,
    )
    [claim] = space.client.list(PERSISTENT_VOLUME_CLAIMS, space.namespace, decode).items
    name, spec = claim["metadata"]["name"], claim["spec"]
    assert result.outputs["name"][0].properties == {"value": name}
    assert name == f"{claim['metadata']['labels'][CLAIM_LABEL]}-data"
    assert claim["metadata"]["annotations"]["example.com/a"] == "b c"
    assert (spec["accessModes"], spec["resources"]) == (["ReadWriteOnce"], {"requests": {"storage": "1Gi"}})
    assert (spec["storageClassName"], spec["volumeName"]) == ("", "disk")
    assert spec["dataSource"]["name"] == "s"
    launch(space, tmp_path / "2", "delete", pvc_name=name)
    launch(space, tmp_path / "3", "delete", pvc_name="no-such-claim")


def test_a_claim_of_others_is_neither_taken_nor_deleted(space: Space, tmp_path: Path) -> None:
    theirs = {
        "metadata": {"name": "theirs"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    space.client.create(PERSISTENT_VOLUME_CLAIMS, space.namespace, theirs, decode)
    with pytest.raises(PermanentFailure, match=f"claim {space.namespace}/theirs exists already"):
        launch(space, tmp_path / "1", "create", pvc_name="theirs", **NEW)
    with pytest.raises(PermanentFailure, match="was not created by a pipeline"):
        launch(space, tmp_path / "2", "delete", pvc_name="theirs")
    assert space.client.get(PERSISTENT_VOLUME_CLAIMS, space.namespace, "theirs", decode)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"pvc_name": "a", **NEW, "size": "lots"}, "must be an amount"),
        ({"pvc_name": "a", **NEW, "access_modes": ["All"]}, "none of ReadWriteOnce"),
        ({"pvc_name": "a", **NEW, "storage_class_name": "A B"}, "is not a valid name of an object"),
        (
            {"pvc_name": "a", **NEW, "data_source": {"x": "y"}},
            "data_source may have only the fields apiGroup, kind, name",
        ),
        ({"pvc_name": "a", **NEW, "annotations": {"$patch": "x"}}, "is not a valid name of a label"),
    ],
)
def test_a_claim_that_can_not_be_fails_its_step_and_is_not_made(
    space: Space, tmp_path: Path, parameters: Any, words: str
) -> None:
    with pytest.raises(PermanentFailure, match=words):
        launch(space, tmp_path, "create", **parameters)
    with pytest.raises(NotFoundError):
        space.client.get(PERSISTENT_VOLUME_CLAIMS, space.namespace, "a", decode)
