"""Plans for tests."""

from typing import Any

from tfoperator.launcher import ExecutorContainerSpec
from tfoperator.pipeline.compiling.launch_plan import LauncherPods, LaunchPlan, launch_plan
from tfoperator.pipeline.graph import Graph, Step
from tfoperator.pipeline.values import OUTPUT, Value


def graph(steps: dict[str, list[str]], root: str = "/data/root", name: str = "words") -> Graph:
    """Steps that read from others."""

    def step(step_name: str, after: list[str]) -> Step:
        inputs = {f"i{n}": Value(OUTPUT, (other, "o")) for n, other in enumerate(after)}
        return Step(step_name, "Step", ExecutorContainerSpec("a:1"), inputs)

    return Graph(name, root, tuple(step(*item) for item in steps.items()))


def pods(**more: Any) -> LauncherPods:
    return LauncherPods(**{"image": "example.com/p:1", "file": "/pipeline/words.py", **more})


def plan(steps: dict[str, list[str]] | None = None, **parameters: Any) -> LaunchPlan:
    return launch_plan(graph(steps or {"A": [], "B.x": ["A"]}), parameters, [], pods())
