"""Components that read and write files, with a pipeline_root in an object store: files before, objects after."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hack.s3_server import BUCKET
from tests.support.services import s3, s3_variables
from tests.unit.pipeline.kfp.test_ir import HERE, states
from tests.unit.pipeline.samples import home_of, runner
from tfoperator.launcher import Artifact, ComponentError, LaunchContext, LocalOutputStore, PermanentFailure
from tfoperator.launcher.container.staging import download, staged_places
from tfoperator.launcher.core.component import Component
from tfoperator.launcher.core.output import ContainerEnd, read_output
from tfoperator.launcher.core.output_document import MalformedOutput, Output
from tfoperator.object_store import ObjectInfo, Objects, ObjectStoreError
from tfoperator.pipeline import AS_PROCESSES, ON_DOCKER, ON_KUBERNETES, PipelineFailed, PipelineRunner
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.kfp.container import IRContainerSpec
from tfoperator.pipeline.kfp.reading import read_ir

__all__ = ["s3", "s3_variables"]

ROOT = "s3://bucket/root"


def shapes(folder: Path, root: str) -> Graph:
    (folder / "imported").write_text("one\n")
    graph, _, _ = read_ir(str(HERE / "shapes.yaml"), {"known": str(folder / "imported")})
    return msgspec.structs.replace(graph, root=root)


@pytest.mark.full
def test_a_pipeline_of_processes_has_its_artifacts_in_an_object_store(s3: dict[str, str], tmp_path: Path) -> None:
    bucket = Objects(f"s3://{BUCKET}/{tmp_path.name}")
    for state in ("succeeded", "cached"):
        result = runner(tmp_path, launchers=AS_PROCESSES, parallel=8).run(shapes(tmp_path, f"{bucket}/root"))
        assert states(result)["count"] == state
        (data,) = result.results["paint"].outputs["data"]
        assert data.properties == {"hue": "red"}
        assert data.uri.startswith(f"{bucket}/root/paint/data/")
        (obj,) = Objects(data.uri).here()
        assert obj.size == len("0\n1\n2\n")
    with home_of(tmp_path).store() as store:
        executions = store.executions(result.run_id)
    assert executions["count"].outputs["rows"][0].properties == {"value": 3}
    assert executions["for-loop-1.twice.add-2.2"].outputs["total"][0].properties == {"value": 4}
    assert not [*(tmp_path / "home").rglob("steps/*/tmp/inputs/*"), *(tmp_path / "home").rglob("steps/*/tmp/outputs/*")]
    assert not [path for path in tmp_path.iterdir() if path.name == "root" or path.name.startswith("s3")]


@pytest.mark.full
def test_what_is_no_longer_there_fails_the_step_by_its_url(s3: dict[str, str], tmp_path: Path) -> None:
    bucket = Objects(f"s3://{BUCKET}/{tmp_path.name}")
    graph = shapes(tmp_path, f"{bucket}/root")
    steps = {step.name: step for step in graph.steps}
    silent = msgspec.structs.replace(
        steps["paint"], executor_spec=msgspec.structs.replace(steps["paint"].executor_spec, command=["true"], args=[])
    )
    graph = msgspec.structs.replace(graph, steps=(steps["numbers"], silent, steps["count"]))
    with pytest.raises(PipelineFailed, match=r"an input can't be downloaded: s3://.*/paint/data/.*: there is nothing"):
        runner(tmp_path, launchers=AS_PROCESSES).run(graph)


def test_a_launcher_that_does_not_see_the_files_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = shapes(tmp_path, ROOT)

    def check(launchers: Any, configs: Any = None, **context: Any) -> None:
        pipeline_runner = PipelineRunner(launchers, configs, home=tmp_path / "home", context=LaunchContext(**context))
        infos = pipeline_runner.infos_of(graph, "RUN")
        for step in graph.steps:
            pipeline_runner._chosen(infos, graph, step, "RUN", pipeline_runner._context).check()

    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    for launchers in (ON_KUBERNETES, ON_DOCKER):
        with pytest.raises(
            ComponentError, match=r"its outputs go to s3://bucket/root, so its program writes local files"
        ):
            check(launchers, kube=nullcontext)
    check(ON_KUBERNETES, kube=nullcontext, tmp_path="/data/tmp")
    monkeypatch.delenv("DOCKER_HOST")
    check(ON_DOCKER)


def test_a_program_reads_paths_and_urls_where_it_asks_for_them() -> None:
    path, uri = "{{$.inputs.artifacts['i'].path}}", "{{$.inputs.artifacts['i'].uri}}"
    spec = IRContainerSpec("busybox", [path, uri], ["{{$}}"], task="t", artifacts={"i": {}, "o": {}}, values=("v",))
    inputs = {"i": (Artifact(f"{ROOT}/a/i/1"),)}
    outputs = {"o": (Artifact(f"{ROOT}/t/o/1"),), "v": (Artifact(f"{ROOT}/t/v/1"),)}
    component = Component("t", spec, inputs, outputs)
    places = staged_places(component, "/tmp/t", ROOT)
    command, (whole,) = spec.words(inputs, outputs, {"tmp_path": "/tmp/t"}, places)
    assert command == ["/tmp/t/inputs/i/0", f"{ROOT}/a/i/1"]
    document = json.loads(whole)
    assert document["inputs"]["artifacts"]["i"]["artifacts"][0]["uri"] == "/tmp/t/inputs/i/0"
    assert document["outputs"]["artifacts"]["o"]["artifacts"][0]["uri"] == "/tmp/t/outputs/o"
    assert document["outputs"]["parameters"]["v"]["outputFile"] == "/tmp/t/outputs/v"
    assert staged_places(component, "/tmp/t", "") == staged_places(component, "/tmp/t", "s3://bucket/roo") == {}


@pytest.mark.parametrize("key", ["../../x", "a/../../../x", "/x"])
def test_no_name_of_an_object_leads_out_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    info = ObjectInfo(key, 1, None, {})  # type: ignore[arg-type]
    monkeypatch.setattr(Objects, "__init__", lambda self, url: self.__dict__.update(url=url, _path="root", _store=None))
    monkeypatch.setattr(Objects, "here", lambda _: iter([info]))
    with pytest.raises(ObjectStoreError, match=r"because its name leads out of the directory: '.*' is not"):
        Objects(ROOT).download(tmp_path / "deep/er/in")
    component = Component("t", IRContainerSpec("i", ["x"], task="t"), {"i": (Artifact(f"{ROOT}/x"),)})
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/inputs").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(PermanentFailure, match="can't be downloaded"):
        download(component, str(tmp_path / "tmp"), ROOT)
    assert not [*(tmp_path / "elsewhere").iterdir()]
    assert not (tmp_path / "x").exists()


def test_only_what_a_program_that_has_succeeded_has_left_is_uploaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded: list[Path] = []
    monkeypatch.setattr(Objects, "__init__", lambda self, url: setattr(self, "url", url))
    monkeypatch.setattr(Objects, "remove", lambda _: None)
    monkeypatch.setattr(Objects, "upload", lambda _, path: uploaded.append(path))
    planned = {name: [Artifact(f"{ROOT}/t/{name}/1")] for name in ("o", "p")}

    def outcome(end: ContainerEnd, output: Any = None) -> Any:
        uploaded.clear()
        (tmp_path / "output.json").unlink(missing_ok=True)
        if output is not None:
            (tmp_path / "output.json").write_text(json.dumps(output))
        return read_output(LocalOutputStore(), str(tmp_path), planned, end)

    left = tmp_path / "outputs" / "o"
    left.parent.mkdir()
    never = {"outputs": {"o": {"uri": str(left), "properties": {"a": 1}}}}
    assert outcome(ContainerEnd(0)) is None
    named = outcome(ContainerEnd(0), never)  # as a component of kfp does with an output that has properties only
    assert (named.artifacts(), uploaded) == ({"o": (Artifact("", {"a": 1}),)}, [])
    left.write_text("x")
    for end in (ContainerEnd(1), ContainerEnd(None, lost=True)):
        assert outcome(end) is None
    assert isinstance(outcome(ContainerEnd(1), never), Output)
    assert isinstance(outcome(ContainerEnd(0), {"error_status": {}}), Output)
    assert not uploaded
    for output in (None, never, {"outputs": {"o": {"properties": {"a": 1}}}}):
        properties = {} if output is None else {"a": 1}
        assert outcome(ContainerEnd(0), output).artifacts() == {"o": (Artifact(f"{ROOT}/t/o/1", properties),)}
        assert uploaded == [left]
    left.unlink()
    left.symlink_to("/etc/passwd")
    assert isinstance(outcome(ContainerEnd(0)), MalformedOutput)
    assert not uploaded
