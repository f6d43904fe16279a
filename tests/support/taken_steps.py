"""Steps whose programs answer SIGTERM with exit code 0, so that only the platform shows whether their work was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfoperator.launcher import Artifact, Component, ExecutorContainerSpec

SHARDS = 20
NO_IMAGE = "example.invalid/x:1"
"""For containers that are processes of this machine."""

WRITE_SHARDS = f"""
trap 'echo told to end; exit 0' TERM
mkdir -p {{{{ outputs.shards.uri }}}}
n=0
while [ $n -lt {SHARDS} ]; do
    n=$((n+1)); echo $n > {{{{ outputs.shards.uri }}}}/$n
    if [ $n = 5 ] && ! [ -e {{{{ exec_props.mark }}}} ]; then
        touch {{{{ exec_props.mark }}}}; echo five are written; while :; do sleep 0.05; done
    fi
done
echo all are written
"""

_REPORT_AT_THE_END = """
saved() { echo '{{ exec_props.said }}' > {{ exec_props.tmp_path }}/output.json; exit 0; }
trap saved TERM; echo ready; while :; do sleep 0.05; done
"""


def script(text: str, image: str = NO_IMAGE, **more: Any) -> Component:
    """A component whose container runs a shell script."""
    return Component("step", ExecutorContainerSpec(image, ("sh", "-c", text)), **more)


def shards(folder: Path, image: str = NO_IMAGE) -> Component:
    """A step that writes twenty files; its first container waits after the fifth until it gets a signal to end."""
    outputs = {"shards": [Artifact(str(folder / "shards"))]}
    return script(WRITE_SHARDS, image, outputs=outputs, exec_properties={"mark": str(folder / "mark")})


def written(folder: Path) -> int:
    """How many files the step has written."""
    return len(list((folder / "shards").iterdir()))


def reporting(image: str = NO_IMAGE) -> Component:
    """A step that writes output.json after the signal to end, and then ends with 0: its work was done."""
    output = json.dumps({"outputs": {"o": {"uri": "/new"}}})
    outputs = {"o": [Artifact("/old")]}
    return script(_REPORT_AT_THE_END, image, outputs=outputs, exec_properties={"said": output})
