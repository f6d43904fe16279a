from __future__ import annotations

from typing import Any

from tests.unit.controller.builders import TEMPLATE, ReadablePlan, make_job, planned

CLAIM = {"persistentVolumeClaim": {"claimName": "checkpoints"}}


def plan_new(replicas: dict[str, Any], **checkpoint: Any) -> ReadablePlan:
    job = make_job(replicas, checkpoint={"volume": CLAIM, "mountPath": "/checkpoint"} | checkpoint)
    return planned(job, services=())


def template(*, volumes: Any = None, **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "sidecar", "image": "s"}, TEMPLATE["spec"]["containers"][0] | container]}
    return {"template": {"spec": spec if volumes is None else spec | {"volumes": volumes}}}


def test_every_replica_sees_the_jobs_directory_and_is_told_where() -> None:
    result = plan_new({"Chief": 1, "Worker": 2, "PS": 1})
    assert len(result.creations("pods")) == 4
    for create in result.creations("pods"):
        spec = create.body["spec"]
        (container,) = spec["containers"]
        assert spec["volumes"] == [CLAIM | {"name": "tfoperator-checkpoint"}]
        assert container["volumeMounts"] == [
            {"name": "tfoperator-checkpoint", "mountPath": "/checkpoint", "subPath": "ns/mnist"}
        ]
        assert {"name": "TFOPERATOR_CHECKPOINT_DIR", "value": "/checkpoint"} in container["env"]
        assert [variable["name"] for variable in container["env"]].count("TF_CONFIG") == 1


def test_it_joins_what_the_template_has_and_leaves_other_containers_alone() -> None:
    data = {"name": "data", "emptyDir": {}}
    mount = {"name": "data", "mountPath": "/data"}
    env = [{"name": "A", "value": "1"}, {"name": "TFOPERATOR_CHECKPOINT_DIR", "value": "elsewhere"}]
    result = plan_new({"Worker": template(volumes=[data], volumeMounts=[mount], env=env)})
    spec = result.creations("pods")[0].body["spec"]
    sidecar, container = spec["containers"]
    assert sidecar == {"name": "sidecar", "image": "s"}
    assert [volume["name"] for volume in spec["volumes"]] == ["data", "tfoperator-checkpoint"]
    assert container["volumeMounts"][0] == mount
    assert container["env"] == [env[0], {"name": "TFOPERATOR_CHECKPOINT_DIR", "value": "/checkpoint"}]
