"""A pipeline as a Python file, for `tfoperator pipeline run FILE`.

The file defines `create_pipeline(...)`, whose arguments are the run's parameters, and optionally `PLATFORMS`:

    def create_pipeline(steps=200, rate: float = 0.1): return Pipeline("digits", "/data/root", [...])

    PLATFORMS = {"docker": {"default": [DockerPlatformConfig(...)]}, "kubernetes": {...}}

A default determines the type of a parameter. With the default `None`, the parameter is optional. `PLATFORMS` has
platform configs by component, for each platform that the pipeline uses. `PLATFORMS` is optional, and each platform in
it is optional.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from tfoperator.launcher import ComponentError, PlatformConfig
from tfoperator.launcher.component_file import parameter_values
from tfoperator.pipeline.dsl.pipeline import Pipeline
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.kfp.reading import Configs, read_ir

_FUNCTION, _PLATFORMS = "create_pipeline", "PLATFORMS"


class LoadedPipeline(msgspec.Struct, frozen=True):
    """The content of a pipeline file, and the values of the pipeline's parameters.

    `left_out` are the optional parameters that the caller omitted.
    """

    pipeline: Pipeline | Graph
    parameters: dict[str, Any]
    platforms: Configs
    left_out: tuple[str, ...] = ()

    def platform_configs(self, wanted: str = "", containers: str = "") -> Mapping[str, Sequence[PlatformConfig]]:
        """Return the configs of the platform `wanted`, by component.

        If `wanted` is "", the file decides. A pipeline file of Kubeflow Pipelines has configs for several platforms:
        return the configs of the platform `containers`, such as `docker`. Any other file must have a single platform:
        return its configs. Raises ComponentError if the file has no such platform, or if it has several platforms and
        the choice is open.
        """
        names = ", ".join(self.platforms)
        wanted = wanted or (containers if isinstance(self.pipeline, Graph) else "")
        if not wanted and len(self.platforms) > 1:
            raise ComponentError(f"the file has several platforms: choose one of {names} with --platform")
        if wanted and wanted not in self.platforms:
            raise ComponentError(f"there is no platform {wanted!r}; the platforms of the file are {names or 'none'}")
        return self.platforms[wanted] if wanted else next(iter(self.platforms.values()), {})


def load_pipeline_file(
    path: str, given: Mapping[str, str] | None = None, *, blank_is_left_out: bool = False
) -> LoadedPipeline:
    """Run the file, and create its pipeline with parameters that are given as text.

    If the file is YAML or JSON, it is the IR of Kubeflow Pipelines. With `blank_is_left_out`, an optional parameter
    with an empty text counts as omitted: Argo and Airflow pass all parameters, also parameters without a value.

    Raises ComponentError if the file or a parameter is invalid. The message has the name of the file, and the line if
    the file's code raises an exception. Raises OSError if the file can't be opened.
    """
    if Path(path).suffix in (".yaml", ".yml", ".json"):
        graph, values, platforms = read_ir(path, given or {})
        return LoadedPipeline(graph, values, platforms)
    module = _import(Path(path))
    make = getattr(module, _FUNCTION, None)
    if not callable(make):
        raise ComponentError(f"{path} has no function {_FUNCTION}(...) that returns a Pipeline")
    problems, no_default = list[str](), inspect.Parameter.empty
    arguments = inspect.signature(make).parameters.values()
    defaults = {
        argument.name: argument.default
        for argument in arguments
        if argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
    }
    optional = [name for name, default in defaults.items() if default is None]
    texts = {name: text for name, text in (given or {}).items() if text or not (blank_is_left_out and name in optional)}
    left_out = tuple([name for name in optional if name not in texts])
    wanted = {
        name: None if default is no_default else default for name, default in defaults.items() if name not in left_out
    }
    parameters = parameter_values(wanted, texts, problems)
    if problems:
        raise ComponentError("\n".join([f"{path}: its parameters are not valid:", *problems]))
    pipeline = _called(path, lambda: make(**parameters))
    if not isinstance(pipeline, Pipeline):
        raise ComponentError(f"{path}: {_FUNCTION} must return a Pipeline, but returns a {type(pipeline).__name__}")
    try:
        platforms = msgspec.convert(getattr(module, _PLATFORMS, {}), Configs)
    except msgspec.ValidationError as error:
        what = "must be a mapping from platforms to mappings from components to lists of platform configs"
        raise ComponentError(f"{path}: {_PLATFORMS} {what}") from error
    return LoadedPipeline(pipeline, parameters, platforms, left_out)


def _import(path: Path) -> ModuleType:
    """Import the file as a module that is named after the file, and add its folder to `sys.path`.

    So the class `Trainer` in the file `digits.py` has the path `digits:Trainer` (`ExecutorClassSpec.path`).
    """
    with path.open("rb"):
        pass  # raises OSError if the file can't be opened; an OSError of the file's code becomes a ComponentError
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None or path.suffix != ".py":
        raise ComponentError(f"{path} is not a Python file: a pipeline is a .py file with {_FUNCTION}(...)")
    if name in sys.modules and getattr(sys.modules[name], "__file__", "") != str(path.absolute()):
        raise ComponentError(f"{path}: another Python module is named {name!r}: rename the file")
    folder = str(path.absolute().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    try:
        _called(str(path), lambda: loader.exec_module(module))
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _called(path: str, call: Callable[[], Any]) -> Any:
    """Return the result of `call`, which runs code of the pipeline file.

    Raise ComponentError in place of an exception of this code, with the line of the file where the exception happened.
    """
    try:
        return call()
    except ComponentError as error:
        raise ComponentError(f"{path}: {error}") from error
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError) and error.filename:  # a file that is not text has no line number
            raise ComponentError(f"{error.filename}:{error.lineno}: {error.msg}") from error
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame.lineno for frame in frames if Path(frame.filename).name == Path(path).name]
        where = f"{path}:{own[-1]}" if own else path
        raise ComponentError(f"{where}: {type(error).__name__}: {error}") from error
