from pathlib import Path
from typing import Any

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
POD = KubernetesPodPlatformConfig({"priority": 1})


def layers(config: object) -> list[tuple[str, object]]:
    assert isinstance(config, KubernetesPodPlatformConfig)
    return [(layer.origin, layer.patch.get("spec")) for layer in config.layers]


def test_a_components_config_lies_on_the_default_one_names_are_unique_and_configs_are_for_somebody() -> None:
    more = KubernetesPodPlatformConfig({"priority": 2})
    runner = LocalComponentRunner(LAUNCHERS, {"default": [POD], "step": [more]})
    info = runner.launch_info(STEP)
    assert info.launcher is KubernetesPodComponentLauncher
    assert layers(info.platform_config) == [("default config", {"priority": 1}), ("config of step", {"priority": 2})]
    other = runner.launch_info(Component("other", ExecutorContainerSpec("i:1")))
    assert layers(other.platform_config) == [("default config", {"priority": 1})]
    with pytest.raises(ComponentError, match="several components are named step"):
        LocalComponentRunner(LAUNCHERS).run([STEP, STEP])
    with pytest.raises(ComponentError, match="configs for stpe"):
        LocalComponentRunner(LAUNCHERS, {"stpe": [POD]}).run([STEP])
    with pytest.raises(ComponentError, match="two KubernetesPodPlatformConfig"):
        LocalComponentRunner(LAUNCHERS, {"step": [POD, POD]})


@pytest.mark.parametrize(
    ("configs", "component", "chosen"),
    [
        ({}, CLASS, InProcessComponentLauncher),
        ({}, STEP, KubernetesPodComponentLauncher),
        ({"step": [DockerPlatformConfig(), POD]}, STEP, KubernetesPodComponentLauncher),
        ({"default": [POD]}, CLASS, InProcessComponentLauncher),  # a config for all need not concern a class
    ],
)
def test_the_first_launcher_that_accepts_a_config_is_chosen(configs: Any, component: Component, chosen: type) -> None:
    assert LocalComponentRunner(LAUNCHERS, configs).launch_info(component).launcher is chosen


@pytest.mark.parametrize(
    ("launchers", "configs", "component", "words"),
    [
        (LAUNCHERS, {"step": [DockerPlatformConfig()]}, STEP, "DockerPlatformConfig"),
        (LAUNCHERS, {"default": [DockerPlatformConfig()]}, STEP, "DockerPlatformConfig"),
        (LAUNCHERS, {"light": [POD]}, CLASS, "KubernetesPodPlatformConfig"),
        (LAUNCHERS[:1], {}, STEP, "no launcher accepts its ExecutorContainerSpec. The"),
    ],
)
def test_what_nobody_accepts_is_an_error(launchers: Any, configs: Any, component: Component, words: str) -> None:
    with pytest.raises(NoLauncherError, match=words):
        LocalComponentRunner(launchers, configs).launch_info(component)


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
