"""Two components in a row, from Python: one is a class of this file, the other a container.

python examples/launcher/pipeline.py docker         # or kubernetes; configs are kept apart from the components
python examples/launcher/pipeline.py dry-run        # shows what would be launched where; the default
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfoperator.launcher import (
    Artifact,
    Component,
    DockerComponentLauncher,
    DockerPlatformConfig,
    ExecutorClassSpec,
    ExecutorContainerSpec,
    InProcessComponentLauncher,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LocalComponentRunner,
    Pod,
)

FOLDER = Path("/tmp/tfoperator-pipeline")


class MakeText:
    """Writes the input of the next step."""

    def do(
        self,
        input_dict: Mapping[str, Sequence[Any]],
        output_dict: Mapping[str, Sequence[Any]],
        exec_properties: Mapping[str, Any],
    ) -> None:
        """Write so many lines."""
        del input_dict  # it has none
        path = Path(output_dict["text"][0].uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a line\n" * int(exec_properties["lines"]))


TEXT = Artifact(str(FOLDER / "text"))
MAKE = Component("make-text", ExecutorClassSpec(MakeText), outputs={"text": [TEXT]}, exec_properties={"lines": 7})
COUNT = Component(
    "count-lines",
    ExecutorContainerSpec("busybox:1.36", ["wc", "-l"], ["{{ inputs.text.uri }}"]),
    inputs={"text": [TEXT]},
)
CONFIGS = {
    "docker": DockerPlatformConfig(volumes={str(FOLDER): {"bind": str(FOLDER), "mode": "ro"}}),
    "kubernetes": KubernetesPodPlatformConfig(Pod(cpu=0.5).claim("pipeline", str(FOLDER)).spec()),
}
LAUNCHERS = (InProcessComponentLauncher, DockerComponentLauncher, KubernetesPodComponentLauncher)


def main(where: str) -> None:
    """Run it on one platform, or show it on both."""
    if where == "dry-run":
        for name, config in CONFIGS.items():
            info = LocalComponentRunner(LAUNCHERS, {"count-lines": [config]}).launch_info(COUNT)
            print(f"--- {name}", info.make().dry_run(), sep="\n")
        return
    if where not in CONFIGS:
        sys.exit(__doc__)
    results = LocalComponentRunner(LAUNCHERS, {"count-lines": [CONFIGS[where]]}).run([MAKE, COUNT])
    print(", ".join(f"{name}: {result.attempts} attempt(s)" for name, result in results.items()))


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "dry-run")
