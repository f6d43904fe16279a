"""Reads the options. A flag overrides an environment variable, and a variable overrides the configuration file."""

from __future__ import annotations

import argparse
import difflib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import tfoperator
from tfoperator.operator.options.checks import check_together
from tfoperator.operator.options.settings import SETTINGS, Options, OptionsError, Setting
from tfoperator.operator.options.values import BOOLEANS, NAMESPACES

_FLAGS = [setting for setting in SETTINGS if setting.option.on_command_line]
_KEYS = {setting.name: setting for setting in SETTINGS if setting.option.in_file}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionsError(message)


def parse_options(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Options:
    """Return the options from the arguments, from the environment, and from the file that `--config` names.

    Raises OptionsError if an option is unknown or not valid, or if the file can't be read. With `--help` or
    `--version`, the function prints the help or the version, and raises SystemExit.
    """
    given = vars(_parser().parse_args(list(arguments)))
    config = given["config"] or environ.get("TFOPERATOR_CONFIG", "")
    chosen: dict[str, Any] = read_config(config) if config else {}
    if environ.get("CUSTOM_CLUSTER_DOMAIN"):  # the Go operator's variable
        chosen.setdefault("cluster_domain", environ["CUSTOM_CLUSTER_DOMAIN"])
    for setting in _FLAGS:
        if setting.variable in environ:
            chosen[setting.field] = _parse(setting, environ[setting.variable], setting.variable)
        if given[setting.field] is not None:
            chosen[setting.field] = _parse(setting, given[setting.field], f"--{setting.name}")
    options = Options(**chosen | {"config": config})
    check_together(options)
    return options


def read_config(path: str) -> dict[str, Any]:
    """Return the options in a configuration file.

    The keys of the result are the names of fields of `Options`. Raises OptionsError if the file can't be read, or if it
    contains an option that is unknown or not valid.
    """
    return {
        _KEYS[name].field: _parse(_KEYS[name], value, f"--config {path}: {name}")
        for name, value in _read_file(path).items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tfoperator operator",
        description="Runs TFJobs: the controller, in a cluster or against a kubeconfig.",
        epilog="Each option can also be a variable (TFOPERATOR_RESYNC_PERIOD=15s) or a key of the YAML file that "
        "--config names (resync-period: 15s). A flag has priority over a variable, and a variable over the file.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tfoperator {tfoperator.__version__}")
    for setting in _FLAGS:
        meaning, kind = setting.option.meaning, setting.option.kind
        if setting.written_default:
            meaning += f" (default {setting.written_default})"
        shape: dict[str, Any] = {}
        if kind is BOOLEANS:
            shape = {"nargs": "?", "const": "true"}
        elif kind is NAMESPACES:
            shape = {"nargs": "+", "action": "extend"}
        parser.add_argument(f"--{setting.name}", dest=setting.field, metavar=kind.placeholder, help=meaning, **shape)
    return parser


def _parse(setting: Setting, value: object, source: str) -> Any:
    try:
        return setting.option.kind.parse(value)
    except ValueError as error:
        raise OptionsError(f"{source} {error}") from None


def _read_file(path: str) -> dict[str, object]:
    from tfoperator.base.yamldata.reader import YamlError, read_value_of_file

    try:
        content = read_value_of_file(path, path)
    except OSError as error:
        raise OptionsError(f"--config {path}: {error.strerror or error}") from None
    except YamlError as error:
        raise OptionsError(f"--config {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise OptionsError(f"--config {path}: must be a mapping of options, but is a {type(content).__name__}")
    found: dict[str, object] = {}
    for key, value in content.items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", str(key)).replace("_", "-").lower()
        if name not in _KEYS:
            close = difflib.get_close_matches(name, _KEYS, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise OptionsError(f"--config {path}: {key} is not an option{hint}")
        found[name] = value
    return found
