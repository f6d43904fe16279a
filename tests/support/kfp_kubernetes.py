"""Ten pipelines with the options of kfp-kubernetes, compiled by its SDK, and how each has to end on pods."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hack import strangers
from tfoperator.launcher import LaunchContext, RetryPolicy
from tfoperator.pipeline import ON_KUBERNETES, PipelineFailed, PipelineResult, PipelineRunner
from tfoperator.pipeline.kfp.machine_options import ObjectData
from tfoperator.pipeline.kfp.reading import read_ir
from tfoperator.pipeline.runner.progress import Listener

SCRIPT = Path(__file__).parents[1] / "contract/strangers/kfp_kubernetes_pipelines.py"
LOGIN = {"user": "me", "password": "pw"}
OBJECTS: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": LOGIN},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "guest"}, "stringData": {"user": "you"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "modes"}, "data": {"mode": "fast"}},
]
"""The objects that the pipelines name."""
ENDS: Mapping[str, Sequence[str]] = {
    "secret-env": ["me/pw/fast"],
    "secret-files": ["pwfast", "kept"],
    "named-by-a-task": ["pw"],
    "in-a-loop": ["me", "you"],
    "claims": ["kept"],
    "metadata": ["vision/a note: $(HOME)/"],
    "placement": ["placed"],
    "empty-folders": ["b", "a"],
    "image": ["1234"],
}
"""The lines of the steps of each pipeline that succeeds, in any order of the steps."""
TOO_LONG = "too-long"


def compile_all(folder: Path, image: str) -> None:
    """Compile the pipelines with the SDK of Kubeflow Pipelines into `folder`."""
    python = strangers.find(strangers.KFP)
    path = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [python, SCRIPT, folder, image], env=path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def objects_file(folder: Path) -> Path:
    """Write the manifest of the objects; its path."""
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(OBJECTS))
    return file


class Seen(Listener):
    """Keeps the lines of all steps, and the runner's messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.messages: list[str] = []

    def log(self, step: str, line: str) -> None:
        self.lines.append(line)

    def tell(self, step: str, message: str) -> None:
        self.messages.append(message)


def run(
    folder: Path,
    name: str,
    launchers: Any = ON_KUBERNETES,
    platform: str = "kubernetes",
    *,
    parameters: Mapping[str, str] | None = None,
    objects: ObjectData | None = None,
    **context: Any,
) -> tuple[PipelineResult, Seen]:
    """Run a compiled pipeline of the folder to its end, with this context of its launches."""
    graph, _, configs = read_ir(str(folder / f"{name}.yaml"), parameters or {})
    listener = Seen()
    runner = PipelineRunner(
        launchers,
        configs[platform],
        home=folder / "home",
        context=LaunchContext(retry=RetryPolicy(attempts=1), **context),
        listener=listener,
        objects=objects,
    )
    try:
        return runner.run(graph), listener
    except PipelineFailed as error:
        return error.result, listener
