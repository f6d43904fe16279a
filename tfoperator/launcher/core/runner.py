"""Chooses a launcher for each component of a pipeline, from configs that are not part of the pipeline.

The configs under `default` apply to all components. A config under a component's name is merged over the default config
of the same type. The first config that a launcher accepts is used. If a component has configs, but no launcher accepts
any of them, this is an error. Otherwise the component would run on another platform, without the settings in its
configs.
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.launcher.core.component import (
    DEFAULT,
    Component,
    ExecutorContainerSpec,
    LaunchResult,
    PlatformConfig,
    imported,
)
from tfoperator.launcher.core.component_launcher import BaseComponentLauncher
from tfoperator.launcher.core.context import LaunchContext
from tfoperator.launcher.core.errors import ComponentError, NoLauncherError


def named_launcher(path: str) -> type[BaseComponentLauncher]:
    """Import the launcher `package.module:Class` and return it.

    Raises ComponentError if the class can't be imported, or is not a launcher.
    """
    launcher = imported(path)
    if (
        not isinstance(launcher, type)
        or not issubclass(launcher, BaseComponentLauncher)
        or inspect.isabstract(launcher)
    ):
        raise ComponentError(
            f"{path} is not a launcher: a launcher is a BaseComponentLauncher with can_launch and _run_executor"
        )
    return launcher


class ComponentLaunchInfo(msgspec.Struct, frozen=True):
    """The launcher that was chosen for a component, and the component's merged platform config.

    `work_dir` is the working directory of the launch, unless the context of the launch sets another directory.
    """

    component: Component
    launcher: type[BaseComponentLauncher]
    platform_config: PlatformConfig | None = None
    work_dir: Path | None = None

    def make(self, context: LaunchContext | None = None) -> BaseComponentLauncher:
        """Return a launcher for the component. The caller then calls its method `launch`."""
        context = context or LaunchContext()
        if context.work_dir is None and self.work_dir is not None:
            context = dataclasses.replace(context, work_dir=self.work_dir)
        return self.launcher(self.component, self.platform_config, context=context)


class BaseComponentRunner(abc.ABC):
    """The base class of all runners.

    `platform_configs` contains lists of configs by component name. The lists under `default` apply to all components. A
    subclass implements `_run`, which decides in which order, and where, the chosen launchers run.
    """

    def __init__(
        self,
        launchers: Sequence[type[BaseComponentLauncher]],
        platform_configs: Mapping[str, Sequence[PlatformConfig]] | None = None,
    ) -> None:
        """Raises ComponentError if one component has two configs of the same type."""
        self._launchers = tuple(launchers)
        self._configs: dict[str, dict[type[PlatformConfig], PlatformConfig]] = {}
        for name, configs in (platform_configs or {}).items():
            origin = "default config" if name == DEFAULT else f"config of {name}"
            own: dict[type[PlatformConfig], PlatformConfig] = {}
            for config in configs:
                if type(config) in own:
                    raise ComponentError(f"{origin}: has two {type(config).__name__}: merge them into one")
                own[type(config)] = config.named(origin)
            self._configs[name] = own

    def launch_info(self, component: Component, configured_as: str = "") -> ComponentLaunchInfo:
        """Return the launcher for one component, and its merged config.

        Raises NoLauncherError if no launcher accepts the component with any of its configs. `configured_as` is the name
        under which the component's configs are found, if it differs from `component.name`.
        """
        name = configured_as or component.name
        configs = self._merged(name)
        for config in configs:
            for launcher in self._launchers:
                if launcher.can_launch(component.executor_spec, config):
                    return ComponentLaunchInfo(component, launcher, config)
        spec = type(component.executor_spec).__name__
        # A pipeline may mix classes and containers. A class runs without a config, so it ignores the default configs.
        concerned = name in self._configs or isinstance(component.executor_spec, ExecutorContainerSpec)
        if configs and concerned:
            types = ", ".join(type(config).__name__ for config in configs)
            raise NoLauncherError(f"component {component.name} ({spec}): no launcher accepts its config: {types}")
        launcher_class = next(
            (candidate for candidate in self._launchers if candidate.can_launch(component.executor_spec)), None
        )
        if launcher_class is None:
            names = ", ".join(launcher.__name__ for launcher in self._launchers) or "none"
            raise NoLauncherError(
                f"component {component.name}: no launcher accepts its {spec}. The launchers are: {names}"
            )
        return ComponentLaunchInfo(component, launcher_class)

    def run(self, pipeline: Any) -> Any:
        """Choose launchers for all components, then run the launchers. If a component can't be launched, nothing runs.

        `pipeline` has a member `components`, or is an iterable of components. Raises ComponentError, and the errors of
        the launches.
        """
        if (components := getattr(pipeline, "components", None)) is None:
            pipeline = components = tuple(pipeline)
        return self._run(pipeline, self.launch_infos(components))

    def launch_infos(self, components: Iterable[Component]) -> dict[str, ComponentLaunchInfo]:
        """Return the launchers of components and their configs, by name, in the order of the components.

        Raises ComponentError if `check_names` refuses the names, or if a component can't be launched.
        """
        all_components = tuple(components)
        self.check_names([component.name for component in all_components])
        return {component.name: self.launch_info(component) for component in all_components}

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ComponentError for duplicate names, or for a config of a component that doesn't exist."""
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ComponentError(
                f"each component needs its own name, but several components are named {', '.join(twice)}"
            )
        if stray := sorted(self._configs.keys() - {DEFAULT, *names}):
            raise ComponentError(f"there are configs for {', '.join(stray)}, but no component with this name")

    @abc.abstractmethod
    def _run(self, pipeline: Any, component_launcher_infos: Mapping[str, ComponentLaunchInfo]) -> Any:
        """Run the components of a pipeline.

        `component_launcher_infos` has the launchers by component name, in an order in which the components can run.
        """

    def _merged(self, name: str) -> list[PlatformConfig]:
        default, own = self._configs.get(DEFAULT, {}), self._configs.get(name, {})
        merged = {kind: default[kind].merge(config) if kind in default else config for kind, config in own.items()}
        return [*merged.values(), *(config for kind, config in default.items() if kind not in own)]


class LocalComponentRunner(BaseComponentRunner):
    """Launches one component after the other. The launchers run in this process.

    `contexts` has the LaunchContext of each component, by the component's name.
    """

    def __init__(self, *arguments: Any, contexts: Mapping[str, LaunchContext] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._contexts = dict(contexts or {})

    def _run(
        self, pipeline: Any, component_launcher_infos: Mapping[str, ComponentLaunchInfo]
    ) -> Mapping[str, LaunchResult]:
        del pipeline
        launchers = [info.make(self._contexts.get(name)) for name, info in component_launcher_infos.items()]
        for launcher in launchers:
            launcher.check()
        return {launcher.component.name: launcher.launch() for launcher in launchers}
