"""The examples of the RFC as it has them, but for imports, a comma and a bracket that it lacks, and its `...`.

Each of its extension points has a test that reads as its text does.
"""

import abc
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
import yaml

from tfoperator import pipeline as types
from tfoperator.launcher import (
    BaseComponentLauncher,
    Component,
    ComponentError,
    DockerComponentLauncher,
    DockerPlatformConfig,
    ExecutorClassSpec,
    ExecutorContainerSpec,
    InProcessComponentLauncher,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchContext,
    LocalMetadata,
    PermanentFailure,
    Pod,
    ProcessComponentLauncher,
)
from tfoperator.launcher.core.output_document import parse_output
from tfoperator.pipeline import (
    BaseComponent,
    Channel,
    ChannelParameter,
    ExecutionParameter,
    PipelineRunner,
    TfxRunner,
    standard_artifacts,
)
from tfoperator.pipeline import Pipeline as TfxPipeline

pipeline = SimpleNamespace(Pipeline=TfxPipeline)
"""The name `pipeline` that the RFC imports."""


# fmt: off

class MyContainerBasedExampleGen(BaseComponent):

  SPEC_CLASS = types.make_spec_class(
    inputs={
      "raw_input": ChannelParameter(type=standard_artifacts.ExternalArtifact),
    },
    outputs={
      "examples": ChannelParameter(type=standard_artifacts.Examples),
    },
    parameters={
      "num_csv_columns": ExecutionParameter(type=int),
    }
  )

  EXECUTOR_SPEC = ExecutorContainerSpec(
    container_image='gcr.io/my_project/my_example_gen:stable',
    command=['python'],
    args=['my_example_gen.py',
          '--input_csv_file', '{{ inputs.raw_input.uri }}',
          '--output_examples', '{{ outputs.examples.uri }}',
          '--num_csv_columns', '{{ exec_props.num_csv_columns }}' ],
  )


def create_pipeline():
  my_csv_file = Channel('CSVFile', uri="/path/to/csv_file")
  my_example_gen = MyContainerBasedExampleGen(
        raw_input=my_csv_file, num_csv_columns=20)
  return pipeline.Pipeline(
    pipeline_name = 'my_container_based_pipeline',
    pipeline_root = 'gs://path/to/root',
    components = [my_example_gen],
  )


class MyLauncher(BaseComponentLauncher):
  """Notes what it is given, as a launcher of another platform would run it."""

  given: ClassVar[list[Any]] = []

  @classmethod
  def can_launch(cls, executor_spec, platform_spec=None):
    if not isinstance(executor_spec, ExecutorContainerSpec):
      return False
    if not platform_spec:
      return True
    return isinstance(platform_spec, DockerPlatformConfig)

  def _run_executor(self, execution_id, input_dict, output_dict, exec_properties):
    self.given.append((execution_id, input_dict, output_dict, exec_properties))
    Path(output_dict['examples'][0].uri).write_text(str(exec_properties['num_csv_columns']))


class MyRunner(TfxRunner):
  """A runner with the launchers and the configs of the design's base."""

  def __init__(self, launchers, platform_configs):
    super().__init__(launchers, platform_configs)

  def _run(self, pipeline, component_launcher_infos):
    launched = []
    for component in pipeline.components:
      info = component_launcher_infos[component.name]
      info.launcher(info.component, info.platform_config, context=LaunchContext(work_dir=Path('work'))).launch()
      launched.append((component.name, info.launcher.__name__, info.platform_config))
    return launched


class MyExecutor:
  """An executor of TFX: `Do`, and lists of artifacts."""

  def Do(self, input_dict, output_dict, exec_properties):  # noqa: N802 - TFX's name
    assert {type(artifacts) for artifacts in (*input_dict.values(), *output_dict.values())} == {list}
    [raw_input], [examples] = input_dict['raw_input'], output_dict['examples']
    Path(examples.uri).write_text(Path(raw_input.uri).read_text() * exec_properties['num_csv_columns'])
    examples.set_string_custom_property('split', 'train')
    examples.set_int_custom_property('columns', exec_properties['num_csv_columns'])


class TwiceAsMany(ProcessComponentLauncher):
  """Custom code before and after: it changes a property, and calls `super()`."""

  def _run_executor(self, execution_id, input_dict, output_dict, exec_properties):
    exec_properties['num_csv_columns'] *= 2
    super()._run_executor(execution_id, input_dict, output_dict, exec_properties)


# fmt: on


def in_folder(folder: Path, executor: Any = None) -> Any:
    """The pipeline of Steps 1 and 2, with its root and its file in a folder."""
    (folder / "csv").write_text("a,b\n")
    component = MyContainerBasedExampleGen(
        raw_input=Channel("CSVFile", uri=f"{folder}/csv"), num_csv_columns=20, custom_executor_spec=executor
    )
    return TfxPipeline("my_container_based_pipeline", str(folder / "root"), [component])


def test_a_launcher_and_a_runner_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    MyLauncher.given.clear()
    configs = {
        "default": [DockerPlatformConfig(mem_limit="1g")],
        "MyContainerBasedExampleGen": [DockerPlatformConfig(volumes={"/a": {"bind": "/a"}})],
    }
    ((name, launcher, config),) = MyRunner([InProcessComponentLauncher, MyLauncher], configs).run(in_folder(tmp_path))
    assert (name, launcher) == ("MyContainerBasedExampleGen", "MyLauncher")
    assert config.run_kwargs == {"mem_limit": "1g", "volumes": {"/a": {"bind": "/a"}}}
    ((number, inputs, outputs, properties),) = MyLauncher.given
    assert (number, [artifact.uri for artifact in inputs["raw_input"]]) == (1, [f"{tmp_path}/csv"])
    assert properties == {"num_csv_columns": 20, "tmp_path": f"{tmp_path}/work/tmp"}
    assert Path(outputs["examples"][0].uri).read_text() == "20"
    assert isinstance(PipelineRunner([MyLauncher], home=tmp_path / "home"), TfxRunner)
    with pytest.raises(TypeError, match="_run"):
        TfxRunner([MyLauncher])  # type: ignore[abstract]


def test_what_an_override_changes_is_what_is_rendered_and_run_and_recorded(tmp_path: Path) -> None:
    command = ["sh", "-c", 'echo "$0" >"$1"', "{{ exec_props.num_csv_columns }}", "{{ outputs.examples.uri }}"]
    ours = in_folder(tmp_path, ExecutorContainerSpec(container_image="busybox:1.36", command=command))
    result = PipelineRunner([TwiceAsMany], home=tmp_path / "home").run(ours).results["MyContainerBasedExampleGen"]
    assert Path(result.outputs["examples"][0].uri).read_text() == "40\n"
    assert result.exec_properties == {"num_csv_columns": 40}


@pytest.mark.parametrize(
    "launcher", [DockerComponentLauncher, KubernetesPodComponentLauncher, ProcessComponentLauncher]
)
def test_containers_of_all_platforms_run_what_their_launcher_is_given(tmp_path: Path, launcher: Any) -> None:
    class Louder(launcher):  # type: ignore[misc]
        def _connect(self, launch: Any) -> Any:
            raise PermanentFailure(json.dumps([*self.container.command, *self.container.args]))

        def check(self) -> None: ...

        def _run_executor(self, execution_id: int, input_dict: Any, output_dict: Any, exec_properties: Any) -> Any:
            louder = {**exec_properties, "word": exec_properties["word"].upper(), **self.more}
            return super()._run_executor(execution_id, input_dict, output_dict, louder)

        more: ClassVar[dict[str, Any]] = {}

    metadata = LocalMetadata(tmp_path / "records")
    component = Component(
        "c", ExecutorContainerSpec("i", ["say"], ["{{ exec_props.word }}"]), exec_properties={"word": "a"}
    )
    for at, (more, words) in enumerate(
        [({}, r'\["say", "A"\]'), ({"tmp_path": "/x"}, "LaunchContext.tmp_path"), ({"o": object()}, "are not valid")]
    ):
        Louder.more = more
        context = LaunchContext(work_dir=tmp_path / str(at), driver=metadata, publisher=metadata)
        with pytest.raises(PermanentFailure, match=words):
            Louder(component, context=context).launch()
    first = json.loads((tmp_path / "records/c/1.json").read_text())
    assert (first["state"], first["exec_properties"]) == ("failed", {"word": "A"})


def test_an_executor_of_ones_own_is_tfx_s(tmp_path: Path) -> None:
    ours = in_folder(tmp_path, ExecutorClassSpec(executor_class=MyExecutor))
    result = PipelineRunner([InProcessComponentLauncher], home=tmp_path / "home").run(ours)
    (examples,) = result.results["MyContainerBasedExampleGen"].outputs["examples"]
    assert examples.properties == {"split": "train", "columns": 20}
    assert Path(examples.uri).read_text() == "a,b\n" * 20


class NoExecutor:
    """Has no method that does the work."""


class Abstract(abc.ABC):
    """Has an abstract method that a subclass would have to write."""

    @abc.abstractmethod
    def Do(self, *_: Any) -> None: ...  # noqa: N802 - TFX's name


class Demanding:
    """Can't be made without arguments."""

    def __init__(self, context: Any) -> None: ...

    def do(self, *_: Any) -> None: ...


@pytest.mark.parametrize("given", [NoExecutor, Abstract, Demanding, 3])
def test_a_class_that_is_no_executor_is_refused_before_the_run(tmp_path: Path, given: Any) -> None:
    ours = in_folder(tmp_path, ExecutorClassSpec(given))
    with pytest.raises(ComponentError, match="is not an executor"):
        PipelineRunner([InProcessComponentLauncher], home=tmp_path / "home").run(ours)
    assert not (tmp_path / "root").exists()


def test_a_config_of_a_pod_has_its_pod_spec() -> None:
    spec = {"serviceAccountName": "PipelineRunner", "containers": [{"name": "main", "command": ["python"]}]}
    config = KubernetesPodPlatformConfig(pod_spec=spec)
    assert config.pod_spec == spec
    merged = config.merge(KubernetesPodPlatformConfig({"containers": [{"name": "main", "tty": True}]}))
    assert merged.pod_spec["containers"] == [{"name": "main", "command": ["python"], "tty": True}]
    assert KubernetesPodPlatformConfig(labels={"a": "b"}).pod_spec == {}


def test_the_three_layers_of_the_design_become_its_final_pod(tmp_path: Path) -> None:
    base = ExecutorContainerSpec(container_image="tensorflow/tensorflow:v1.13", command=["python", "-c", "ml/app.py"])
    limits = {"memory": "128Mi", "cpu": "500m"}
    pipeline_layer = {
        "serviceAccountName": "PipelineRunner",
        "containers": [{"name": "main", "resources": {"limits": limits}}],
    }
    env = [{"name": "MYSQL_ROOT_PASSWORD", "value": "password"}]
    configs = {
        "default": [KubernetesPodPlatformConfig(pipeline_layer)],
        "MyContainerBasedExampleGen": [KubernetesPodPlatformConfig({"containers": [{"name": "main", "env": env}]})],
    }
    shown = PipelineRunner([KubernetesPodComponentLauncher], configs, home=tmp_path).check(in_folder(tmp_path, base))
    pod = yaml.safe_load(shown["MyContainerBasedExampleGen"])
    (main,) = pod["spec"]["containers"]
    del main["terminationMessagePath"]
    assert pod["spec"]["serviceAccountName"] == "PipelineRunner"
    assert main == {
        "name": "main",
        "image": base.image,
        "command": [*base.command],
        "resources": {"limits": limits},
        "env": env,
    }


def test_an_error_status_needs_no_code() -> None:
    status = parse_output(b'{"error_status": {"message": "no rows"}}').error_status
    assert status is not None
    assert (status.message, status.retryable) == ("no rows", False)


def test_on_docker(tmp_path: Path) -> None:
    shown = PipelineRunner(
        platform_configs={"MyContainerBasedExampleGen": [DockerPlatformConfig(volumes={"/a": {"bind": "/a"}})]},
        home=tmp_path,
    ).check(create_pipeline())["MyContainerBasedExampleGen"]
    assert "gcr.io/my_project/my_example_gen:stable" in shown
    for word in ("/path/to/csv_file", "gs://path/to/root/MyContainerBasedExampleGen/examples/RUN", "'20'", "bind: /a"):
        assert word in shown


def test_on_kubernetes(tmp_path: Path) -> None:
    shown = PipelineRunner(
        platform_configs={
            "default": [KubernetesPodPlatformConfig(Pod().use_gcp_secret().spec())],
            "MyContainerBasedExampleGen": [KubernetesPodPlatformConfig(Pod(cpu=2, memory="1GB").spec())],
        },
        home=tmp_path,
    ).check(create_pipeline())["MyContainerBasedExampleGen"]
    for word in ("kind: Pod", "memory: 1G", "secretName: user-gcp-sa", "GOOGLE_APPLICATION_CREDENTIALS"):
        assert word in shown


@pytest.mark.parametrize("launcher", [DockerComponentLauncher, KubernetesPodComponentLauncher])
def test_an_image_may_be_called_container_image(launcher: Any) -> None:
    spec = ExecutorContainerSpec(container_image="x:1")
    assert (spec, spec.image) == (ExecutorContainerSpec("x:1"), "x:1")
    assert msgspec.to_builtins(spec) == msgspec.to_builtins(ExecutorContainerSpec("x:1"))
    assert launcher.can_launch(spec, None)
