"""A step's container must not write the records by which runs are resumed, used again and believed."""

from pathlib import Path
from typing import Any

import pytest

from tfoperator.launcher import (
    ComponentError,
    ExecutorContainerSpec,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchContext,
    PlatformConfig,
    Pod,
    TFJobPlatformConfig,
)
from tfoperator.pipeline import (
    ON_KUBERNETES,
    BaseComponent,
    ChannelParameter,
    Pipeline,
    PipelineRunner,
    make_spec_class,
)
from tfoperator.pipeline.runner.platforms import check_records_are_hidden

HOME = {"persistentVolumeClaim": {"claimName": "pipeline"}}


class Forger(BaseComponent):
    """Changes what is known of all runs, where it can."""

    SPEC_CLASS = make_spec_class(outputs={"out": ChannelParameter(type="Text")})
    EXECUTOR_SPEC = ExecutorContainerSpec(
        "busybox:1", command=["sh", "-c"], args=["cp forged.db /data/records/metadata.db; echo x > {{outputs.out.uri}}"]
    )


def runner(config: PlatformConfig, home: str) -> PipelineRunner:
    def nobody(*_: Any) -> Any:
        raise AssertionError("the cluster is asked for nothing")

    return PipelineRunner(ON_KUBERNETES, {"default": [config]}, home=home, context=LaunchContext(kube=nobody))


@pytest.mark.parametrize("kind", [KubernetesPodPlatformConfig, TFJobPlatformConfig])
def test_a_step_that_could_forge_the_records_is_not_begun(tmp_path: Path, kind: type[Any]) -> None:
    pipeline = Pipeline("p", str(tmp_path / "root"), [Forger()])
    home = str(tmp_path / "records")
    whole = kind(pod_spec=Pod().claim("pipeline", str(tmp_path)).spec())
    words = r"step Forger: its container \w+ could write to the records .* the whole volume pipeline at .*subPath"
    for begin in (
        lambda one: one.run(pipeline),
        lambda one: one.check(pipeline),
        lambda one: one.run_step(pipeline, "Forger", run_id="r", orchestrator="argo"),
    ):
        with pytest.raises(ComponentError, match=words):
            begin(runner(whole, home))
    part = kind(pod_spec=Pod().claim("pipeline", str(tmp_path / "root"), sub_path="root").spec())
    runner(part, home).check(pipeline)
    runner(whole, "postgresql://db/records").check(pipeline)


def pod(*mounts: dict[str, Any], volumes: list[Any] | None = None, where: str = "containers") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main"}], "volumes": volumes or [{"name": "v", **HOME}]}
    spec[where] = [{"name": "main", "volumeMounts": list(mounts)}]
    return {"spec": spec}


def check(manifest: Any) -> None:
    kind = type("Launcher", (KubernetesPodComponentLauncher,), {"manifest": manifest})
    check_records_are_hidden("step", object.__new__(kind), "/data/records")


@pytest.mark.parametrize("where", ["containers", "initContainers"])
@pytest.mark.parametrize(
    "mount",
    [
        {"mountPath": "/data"},
        {"mountPath": "/data/"},
        {"mountPath": "/"},
        {"mountPath": "/data/records"},
        {"mountPath": "/data", "subPath": ""},
        {"mountPath": "/data", "subPath": "."},
    ],
)
def test_what_shows_the_records_is_refused(mount: dict[str, Any], where: str) -> None:
    with pytest.raises(ComponentError, match="subPath"):
        check(pod({"name": "v", **mount}, where=where))


@pytest.mark.parametrize(
    "mounts",
    [
        [{"mountPath": "/data/root"}],
        [{"mountPath": "/data2"}],
        [{"mountPath": "/data", "subPath": "root"}],
        [{"mountPath": "/data", "subPathExpr": "$(STEP)"}],
        [{"mountPath": "/data", "readOnly": True}],
        [{"mountPath": "/data", "name": "gone"}],
        [{"mountPath": "/data"}, {"mountPath": "/data/records", "name": "empty"}],
        [{}],
    ],
)
def test_what_does_not_is_left_alone(mounts: list[dict[str, Any]]) -> None:
    volumes = [{"name": "v", **HOME}, {"name": "empty", "emptyDir": {}}]
    check(pod(*[{"name": "v", **one} for one in mounts], volumes=volumes))


def test_no_shape_makes_it_raise_anything_else() -> None:
    for manifest in ({}, {"spec": None}, {"spec": {"containers": [None], "volumes": {}}}, pod(volumes=["v"])):
        check(manifest)
