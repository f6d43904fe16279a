"""The examples of the RFC as it has them, but for imports, a comma and a bracket that it lacks, and its `...`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tfoperator import pipeline as types
from tfoperator.launcher import (
    DockerComponentLauncher,
    DockerPlatformConfig,
    ExecutorContainerSpec,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    Pod,
)
from tfoperator.pipeline import (
    BaseComponent,
    Channel,
    ChannelParameter,
    ExecutionParameter,
    PipelineRunner,
    standard_artifacts,
)
from tfoperator.pipeline import Pipeline as TfxPipeline

pipeline = SimpleNamespace(Pipeline=TfxPipeline)
"""What the RFC imports as `pipeline`."""


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


# fmt: on


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
