"""Four steps on real data: split it, train two models side by side, one of them on two replicas, evaluate both.

tfoperator pipeline run digits.py --param in_process=true                      # classes, in this process

eval "$(tfoperator local up)"                                                  # or a cluster
tfoperator pipeline run digits.py --param root=/tmp/digits --platform kubernetes
"""

from __future__ import annotations

from pathlib import Path

import steps

from tfoperator.launcher import Executor, ExecutorClassSpec, ExecutorContainerSpec, TFJobPlatformConfig
from tfoperator.launcher import KubernetesPodPlatformConfig as PodConfig
from tfoperator.pipeline import (
    BaseComponent,
    ChannelParameter,
    ExecutionParameter,
    Pipeline,
    make_spec_class,
    standard_artifacts,
)

IMAGE = "tfoperator/examples:0.1.0"
PROGRAM = str(Path(__file__).with_name("steps.py").absolute())


def container(step: str, *words: str, image: str = IMAGE) -> ExecutorContainerSpec:
    """A container that runs a step of steps.py."""
    args = [PROGRAM, step, "{{ exec_properties.tmp_path }}", *words]
    return ExecutorContainerSpec(container_image=image, command=["python"], args=args)


class Data(BaseComponent):
    """Splits the samples."""

    SPEC_CLASS = make_spec_class(
        outputs={"samples": ChannelParameter(type=standard_artifacts.Examples)},
        parameters={"seed": ExecutionParameter(type=int)},
    )


class Train(BaseComponent):
    """Trains a model."""

    SPEC_CLASS = make_spec_class(
        inputs={"samples": ChannelParameter(type=standard_artifacts.Examples)},
        outputs={"model": ChannelParameter(type=standard_artifacts.Model)},
        parameters={"alpha": ExecutionParameter(type=float)},
    )


class Evaluate(BaseComponent):
    """Compares two models."""

    SPEC_CLASS = make_spec_class(
        inputs={
            "samples": ChannelParameter(type=standard_artifacts.Examples),
            "first": ChannelParameter(type=standard_artifacts.Model),
            "second": ChannelParameter(type=standard_artifacts.Model),
        },
        outputs={"report": ChannelParameter(type=standard_artifacts.ModelEvaluation)},
    )


def create_pipeline(
    root: str = "digits-root", alpha: float = 0.001, seed: int = 1, in_process: bool = False, image: str = IMAGE
) -> Pipeline:
    """The pipeline. Only the step `Train.distributed` reads `alpha`."""
    specs = {
        "data": container("data", "{{ outputs.samples.uri }}", "{{ exec_properties.seed }}", image=image),
        "train": container(
            "train", "{{ outputs.model.uri }}", "{{ inputs.samples.uri }}", "{{ exec_properties.alpha }}", image=image
        ),
        "evaluate": container(
            "evaluate", "{{ outputs.report.uri }}", "{{ inputs.samples.uri }}", "{{ inputs.first.uri }}",
            "{{ inputs.second.uri }}", image=image,
        ),
    }  # fmt: skip
    classes: dict[str, type[Executor]] = {"data": steps.Data, "train": steps.Train, "evaluate": steps.Evaluate}
    work = {name: ExecutorClassSpec(classes[name]) if in_process else spec for name, spec in specs.items()}

    data = Data(seed=seed, custom_executor_spec=work["data"])
    samples = data.outputs.samples
    single = Train(samples=samples, alpha=0.0001, instance_name="single", custom_executor_spec=work["train"])
    distributed = Train(samples=samples, alpha=alpha, instance_name="distributed", custom_executor_spec=work["train"])
    evaluation = Evaluate(
        samples=samples,
        first=single.outputs.model,
        second=distributed.outputs.model,
        custom_executor_spec=work["evaluate"],
    )
    return Pipeline("digits", root, [data, single, distributed, evaluation], enable_cache=True)


PLATFORMS = {
    "in-process": {},
    "kubernetes": {
        "Data": [PodConfig()],
        "Train.single": [PodConfig()],
        "Train.distributed": [TFJobPlatformConfig(replicas={"Worker": 2})],
        "Evaluate": [PodConfig()],
    },
}
