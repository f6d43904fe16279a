"""A step's container must not write the records by which runs are resumed, used again and believed."""

import json
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
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.pipeline import (
    ON_KUBERNETES,
    BaseComponent,
    ChannelParameter,
    Home,
    Pipeline,
    PipelineRunner,
    make_spec_class,
)
from tfoperator.pipeline.dsl.pipeline import graph_of
from tfoperator.pipeline.runner import steps
from tfoperator.pipeline.runner.leftovers import clean_run
from tfoperator.pipeline.runner.platforms import check_records_are_hidden, on_volume, shares_root

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
    words = r"step Forger: its container \w+ mounts the whole volume pipeline at .* records .*subPath"
    for begin in (
        lambda pipeline_runner: pipeline_runner.run(pipeline),
        lambda pipeline_runner: pipeline_runner.check(pipeline),
        lambda pipeline_runner: pipeline_runner.run_step(pipeline, "Forger", run_id="r", orchestrator="argo"),
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
    check(pod(*[{"name": "v", **mount} for mount in mounts], volumes=volumes))


def test_no_shape_makes_it_raise_anything_else() -> None:
    for manifest in ({}, {"spec": None}, {"spec": {"containers": [None], "volumes": {}}}, pod(volumes=["v"])):
        check(manifest)


@pytest.mark.parametrize(
    ("pod", "shared"),
    [
        (Pod().claim("pipeline", "/data/root", sub_path="root"), True),
        (Pod().claim("pipeline", "/data"), True),
        (Pod().claim("pipeline", "/data/root/deeper"), False),
        (Pod().claim("pipeline", "/other"), False),
        (Pod().volume("own", "/data/root", {"emptyDir": {}}), False),
        (Pod().claim("pipeline", "/data").volume("own", "/data/root", {"emptyDir": {}}), False),
        (Pod().volume("data", "/data/root", HOME, read_only=True), False),
        (Pod(), False),
    ],
)
def test_a_pod_shares_pipeline_root_if_it_mounts_a_volume_there(pod: Pod, shared: bool) -> None:
    for kind in (KubernetesPodPlatformConfig, TFJobPlatformConfig):  # all replicas of a job would write one file
        pipeline = Pipeline("p", "/data/root", [Forger()])
        pipeline_runner = PipelineRunner(ON_KUBERNETES, {"default": [kind(pod_spec=pod.spec())]}, home="/records")
        (info,) = pipeline_runner.infos_of(graph_of(pipeline), "RUN").values()
        assert shares_root(info.make(), "/data/root") is (shared and kind is KubernetesPodPlatformConfig)
        assert not shares_root(info.make(), "s3://data/root")
    assert not on_volume("s3://data/root")
    assert not on_volume("/no/such/place")


@pytest.mark.parametrize("inside", [True, False])
def test_in_a_cluster_output_json_comes_by_a_folder_of_pipeline_root_and_may_have_more_than_4_kilobytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    root, output = tmp_path / "root", {"outputs": {"out": {"properties": {"value": "x" * 20_000}}}}
    monkeypatch.setattr(steps, "in_cluster", lambda: inside)
    monkeypatch.setattr(steps, "on_volume", lambda _: True)
    made: list[Any] = []

    def run(self: KubernetesPodComponentLauncher, *_: Any) -> Any:
        (main,) = self.manifest["spec"]["containers"]
        made.append((self.tmp_path, main.get("terminationMessagePath", "")))
        self._clear_output()
        Path(self.tmp_path, "output.json").write_text(json.dumps(output))
        return self._judged(ContainerEnd(0)).output

    monkeypatch.setattr(KubernetesPodComponentLauncher, "_run_executor", run)
    monkeypatch.setattr(KubernetesPodComponentLauncher, "check", lambda _: None)
    config = KubernetesPodPlatformConfig(Pod().claim("pipeline", str(root), sub_path="root").spec())
    result = PipelineRunner(ON_KUBERNETES, {"default": [config]}, home=tmp_path / "home").run(
        Pipeline("p", str(root), [Forger()])
    )
    assert result.results["Forger"].outputs["out"][0].properties == {"value": "x" * 20_000}
    shared = f"{root}/.tmp/{result.run_id}/Forger"
    ((place, message),) = made
    assert (place == shared, message == "") == (inside, inside)
    home = Home(tmp_path / "home")
    with home.store() as store:
        clean_run(home, store, store.runs()[0], outputs=False)
    home.close()
    assert not Path(shared).exists()
