from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.launcher.executors import Copies, Says
from tfoperator.launcher import (
    Component,
    ComponentError,
    DockerPlatformConfig,
    ExecutorClassSpec,
    ExecutorContainerSpec,
    InProcessComponentLauncher,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchContext,
    LocalComponentRunner,
    NoLauncherError,
)

LAUNCHERS = (InProcessComponentLauncher, KubernetesPodComponentLauncher)
STEP = Component("step", ExecutorContainerSpec("i:1"))
CLASS = Component("light", ExecutorClassSpec(Copies))


def layers(config: object) -> list[tuple[str, object]]:
    assert isinstance(config, KubernetesPodPlatformConfig)
    return [(layer.origin, layer.patch.get("spec")) for layer in config.layers]


def test_a_components_config_lies_on_the_default_one() -> None:
    runner = LocalComponentRunner(
        LAUNCHERS,
        {
            "default": [KubernetesPodPlatformConfig({"priority": 1})],
            "step": [KubernetesPodPlatformConfig({"priority": 2})],
        },
    )
    info = runner.launch_info(STEP)

    assert info.launcher is KubernetesPodComponentLauncher
    assert layers(info.platform_config) == [("default config", {"priority": 1}), ("config of step", {"priority": 2})]
    other = runner.launch_info(Component("other", ExecutorContainerSpec("i:1")))
    assert layers(other.platform_config) == [("default config", {"priority": 1})]


def test_without_a_config_the_first_launcher_that_needs_none_is_chosen() -> None:
    runner = LocalComponentRunner(LAUNCHERS)

    assert runner.launch_info(CLASS).launcher is InProcessComponentLauncher
    assert runner.launch_info(STEP).launcher is KubernetesPodComponentLauncher
    with pytest.raises(NoLauncherError, match="no launcher here accepts its ExecutorContainerSpec"):
        LocalComponentRunner([InProcessComponentLauncher]).launch_info(STEP)


def test_the_first_config_that_somebody_accepts_decides() -> None:
    configs = [DockerPlatformConfig(), KubernetesPodPlatformConfig({"priority": 1})]
    info = LocalComponentRunner(LAUNCHERS, {"step": configs}).launch_info(STEP)

    assert info.launcher is KubernetesPodComponentLauncher


def test_a_config_that_nobody_accepts_is_an_error_and_not_ignored() -> None:
    for name in ("step", "default"):
        runner = LocalComponentRunner(LAUNCHERS, {name: [DockerPlatformConfig()]})
        with pytest.raises(NoLauncherError, match="DockerPlatformConfig"):
            runner.launch_info(STEP)
    with pytest.raises(NoLauncherError):
        LocalComponentRunner(LAUNCHERS, {"light": [KubernetesPodPlatformConfig()]}).launch_info(CLASS)


def test_what_is_said_for_all_need_not_concern_a_class() -> None:
    runner = LocalComponentRunner(LAUNCHERS, {"default": [KubernetesPodPlatformConfig({"priority": 1})]})

    assert runner.launch_info(CLASS).launcher is InProcessComponentLauncher


def test_names_are_unique_and_configs_are_for_somebody() -> None:
    with pytest.raises(ComponentError, match="more than one step"):
        LocalComponentRunner(LAUNCHERS).run([STEP, STEP])
    with pytest.raises(ComponentError, match="configs for stpe"):
        LocalComponentRunner(LAUNCHERS, {"stpe": [KubernetesPodPlatformConfig()]}).run([STEP])
    with pytest.raises(ComponentError, match="two KubernetesPodPlatformConfig"):
        LocalComponentRunner(LAUNCHERS, {"step": [KubernetesPodPlatformConfig(), KubernetesPodPlatformConfig()]})


def test_a_pipeline_runs_in_order_and_not_at_all_if_one_of_it_can_not(tmp_path: Path) -> None:
    def says(name: str, properties: dict[str, object]) -> Component:
        return Component(name, ExecutorClassSpec(Says), exec_properties=properties)

    ok = {"says": [""], "tries": str(tmp_path / "tries")}
    contexts = {name: LaunchContext(work_dir=tmp_path / name) for name in ("a", "b", "step")}
    runner = LocalComponentRunner(LAUNCHERS, contexts=contexts)
    with pytest.raises(ComponentError):
        runner.run([says("a", ok), Component("step", ExecutorContainerSpec("{{ inputs.nope.uri }}"))])
    assert not (tmp_path / "tries").exists()

    assert list(runner.run([says("a", ok), says("b", ok)])) == ["a", "b"]
    assert (tmp_path / "tries").read_text() == "2"
