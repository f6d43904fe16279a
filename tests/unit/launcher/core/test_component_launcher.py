from pathlib import Path

import pytest

from tfoperator.launcher import (
    Component,
    ExecutorContainerSpec,
    LaunchContext,
    OwnershipLost,
    ProcessComponentLauncher,
    ProcessPlatformConfig,
)
from tfoperator.launcher.core.context import FolderMount
from tfoperator.launcher.core.record import RecordKeeper


class Kept:
    """A record outside of the working directory."""

    def __init__(self) -> None:
        self.record: bytes | None = None

    def write(self, record: bytes | None) -> None:
        self.record = record


def lost() -> None:
    raise OwnershipLost("the launcher was killed here")


def test_a_launch_continues_in_another_working_directory(tmp_path: Path) -> None:
    kept = Kept()
    component = Component("show", ExecutorContainerSpec("busybox", ["sh", "-c", "exit 0"]))

    def launcher(work: Path, *, killed: bool) -> ProcessComponentLauncher:
        # A pipeline puts the Secrets of a step into the working directory of its launch.
        config = ProcessPlatformConfig({"KEYS": f"{work}/mounts/secret-0"}, [FolderMount(f"{work}/mounts/x", "/keys")])
        keeper = RecordKeeper(lambda: kept.record, kept.write, tmp_path / "logs")
        context = LaunchContext(work_dir=work, keeper=keeper, still_ours=lost if killed else lambda: None)
        return ProcessComponentLauncher(component, config, context=context)

    with pytest.raises(OwnershipLost):
        launcher(tmp_path / "first", killed=True).launch()
    assert launcher(tmp_path / "second", killed=False).launch().attempts == 1
