"""Pipelines of classes for tests: what a step does is a function, and what it did is counted."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfoperator.launcher import ExecutorClassSpec, LaunchContext, RetryPolicy
from tfoperator.pipeline import (
    BaseComponent,
    ChannelParameter,
    ExecutionParameter,
    Home,
    Pipeline,
    PipelineResult,
    PipelineRunner,
    StepView,
    make_spec_class,
)

Place = Path | str
Work = Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], None]

DONE: list[str] = []
"""The steps that ran to their end, in order."""
ON_THE_WAY: dict[str, Work] = {}
"""The work of a step before it writes its output; by the name that its parameter gives."""


DATABASES: dict[Path, str] = {}
"""The URLs of the records of tests that have them in PostgreSQL, by the test's folder."""


OPENED: list[Home] = []


def home_of(folder: Path) -> Home:
    """Where the records of a test are; the fixture `place` closes it."""
    OPENED.append(Home(DATABASES.get(folder, folder / "home")))
    return OPENED[-1]


def fails(error: BaseException) -> Work:
    """A step that ends so."""

    def work(*_: Any) -> None:
        raise error

    return work


def states(result: PipelineResult) -> dict[str, str]:
    """How each step of a run ended."""
    return {name: str(view.state) for name, view in result.steps.items()}


class Adder:
    """Writes the sum of its inputs and its parameter."""

    def do(self, input_dict: Any, output_dict: Any, exec_properties: Any) -> None:
        name = exec_properties["name"]
        if name in ON_THE_WAY:
            ON_THE_WAY[name](input_dict, output_dict, exec_properties)
        total = exec_properties["number"]
        for artifacts in input_dict.values():
            total += sum(int(Path(artifact.uri).read_text()) for artifact in artifacts)
        uri = output_dict["total"][0].uri
        Path(uri).write_text(str(total))
        document = {"outputs": {"total": {"uri": uri, "properties": {"total": total}}}}
        Path(exec_properties["tmp_path"], "output.json").write_text(json.dumps(document))
        DONE.append(name)


class Add(BaseComponent):
    """A number, and what two channels bring."""

    SPEC_CLASS = make_spec_class(
        inputs={
            "left": ChannelParameter(type="Number", optional=True),
            "right": ChannelParameter(type="Number", optional=True),
        },
        outputs={"total": ChannelParameter(type="Number")},
        parameters={"number": ExecutionParameter(type=int), "name": ExecutionParameter(type=str)},
    )
    EXECUTOR_SPEC = ExecutorClassSpec(Adder)


def add(name: str, number: int = 0, **channels: Any) -> Add:
    """A step of this name."""
    return Add(name=name, number=number, **channels).with_id(name)


def diamond(root: Path, *, begin: int = 1, left: int = 10, cache: bool = True) -> Pipeline:
    """Begin -> left, right -> end."""
    first = add("begin", begin)
    left_step = add("left", left, left=first.outputs.total)
    right_step = add("right", 100, left=first.outputs.total)
    last = add("end", 0, left=left_step.outputs.total, right=right_step.outputs.total)
    return Pipeline("diamond", str(root / "data"), [last, right_step, left_step, first], enable_cache=cache)


class Seen:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.views: list[StepView] = []
        self.messages: list[str] = []

    def step(self, view: StepView) -> None:
        self.views.append(view)

    def log(self, step: str, line: str) -> None: ...

    def tell(self, step: str, message: str) -> None:
        self.messages.append(message)


def runner(folder: Path, **more: Any) -> PipelineRunner:
    """A runner whose records are in a folder."""
    context = LaunchContext(retry=RetryPolicy(attempts=2, initial=0.01, maximum=0.02))
    return PipelineRunner(**{"home": DATABASES.get(folder, folder / "home"), "context": context, **more})
