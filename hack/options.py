"""The table of every option of the operator, for docs/options.md, and the facts that must be repeated elsewhere.

`missing_facts` compares the declarations of options with files that people write: the values of the Helm chart, and the
tables of docs/operator.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from hack.chart import CHART
from tfoperator.operator.options.settings import SETTINGS, Setting

_ROOT = CHART.parents[2]
_DECLARATIONS = "tfoperator/operator/options/settings.py"
_HEAD = """\
<!-- Made by hack/generate.py from tfoperator/operator/options/settings.py; change that instead. -->
# Every option of the operator

An option is a flag of `tfoperator operator` (`--resync-period=15s`), a variable (`TFOPERATOR_RESYNC_PERIOD=15s`), or a
key of the YAML file that `--config` names (`resync-period: 15s`). A flag wins over a variable, a variable over the
file. An option without dashes is a key of the file only: see [accelerators](operator.md#accelerators) and
[scheduling](operator.md#priority-classes-queues-and-annotations-of-gangs). [Running the operator](operator.md#options)
explains when to change an option. A dash means that the option is not set. The last column names the value of the Helm
chart that is passed on unchanged. The chart sets some of the other options itself; its values `extraArgs` and `config`
set any of them.

| Option | Default | Value | Meaning | Helm |
|---|---|---|---|---|
"""
_UNSET = ("", "all", "none", "off", "false")
"""Texts that stand in docs/operator.md for the default of an option that is not set, or is false."""


def options_markdown(settings: Sequence[Setting] = SETTINGS) -> str:
    """Return the text of docs/options.md."""
    return _HEAD + "".join(f"{_row(setting)}\n" for setting in settings)


def _row(setting: Setting) -> str:
    option = setting.option
    name = f"--{setting.name}" if option.on_command_line else setting.name
    default = f"`{setting.written_default}`" if setting.written_default else "–"
    chart_value = f"`{option.chart_value}`" if option.chart_value else ""
    return f"| `{name}` | {default} | {option.kind.description} | {option.meaning} | {chart_value} |"


class Documents(NamedTuple):
    """The texts of the files that repeat facts about options."""

    options_page: str
    operator_page: str
    chart_values: str
    chart_schema: str
    chart_helpers: str


def read_documents() -> Documents:
    """Return the texts of the files as they are now."""
    return Documents(
        (_ROOT / "docs/options.md").read_text(),
        (_ROOT / "docs/operator.md").read_text(),
        (CHART / "values.yaml").read_text(),
        (CHART / "values.schema.json").read_text(),
        (CHART / "templates/_helpers.tpl").read_text(),
    )


def missing_facts(documents: Documents, settings: Sequence[Setting] = SETTINGS) -> list[str]:
    """Return a line for each fact that a file lacks or has otherwise than its declaration: the file, then the fact."""
    return [
        *_missing_rows(documents.options_page, settings),
        *_wrong_defaults(documents.operator_page, settings),
        *_missing_values(documents, settings),
        *_undeclared_flags(documents.chart_helpers, settings),
    ]


def _missing_rows(page: str, settings: Sequence[Setting]) -> Iterator[str]:
    rows = page.splitlines()
    for setting in settings:
        if _row(setting) not in rows:
            yield f"docs/options.md lacks the row of {setting.name}: run python hack/generate.py"


def _wrong_defaults(page: str, settings: Sequence[Setting]) -> Iterator[str]:
    """Compare the first two columns of each table of options; a cell may have several options, with commas."""
    defaults = {f"--{setting.name}": setting.written_default for setting in settings}
    for table in re.findall(r"^\| option \| default \|.*\n((?:\|.*\n)+)", page, re.MULTILINE):
        for row in table.splitlines()[1:]:
            _, options, shown, *_ = row.split("|")
            flags = re.findall(r"--[a-z-]+", options)
            texts = [re.sub(r"`|\(.*\)", "", text).strip() for text in shown.split(",")]
            for flag, text in zip(flags, texts, strict=False):
                if flag not in defaults:
                    yield f"docs/operator.md has a row of {flag}, which is no option"
                elif text != defaults[flag] and not (text in _UNSET and defaults[flag] in _UNSET):
                    yield f"docs/operator.md has {text!r} as the default of {flag}, which is {defaults[flag]!r}"


def _missing_values(documents: Documents, settings: Sequence[Setting]) -> Iterator[str]:
    values, schema = yaml.safe_load(documents.chart_values), json.loads(documents.chart_schema)
    for setting in settings:
        option, path = setting.option, setting.option.chart_value.split(".")
        if not option.chart_value:
            continue
        named = f"{option.chart_value}, the value of --{setting.name}"
        value = _at(values, path)
        if value is None:
            yield f"manifests/helm/tfoperator/values.yaml lacks {named}"
        elif value not in ("", []) and (problem := _refusal(setting, value)):
            yield f"manifests/helm/tfoperator/values.yaml: {named}, {problem}"
        wanted = dict(option.kind.chart_schema)
        if "enum" in wanted and value == "":
            wanted["enum"] = ["", *wanted["enum"]]
        if _at(schema, [part for name in path for part in ("properties", name)]) != wanted:
            yield f"manifests/helm/tfoperator/values.schema.json lacks {json.dumps(wanted)} for {named}"
        for text in (f"- --{setting.name}", f".Values.{option.chart_value}"):
            if not re.search(rf"{re.escape(text)}(?![\w.-])", documents.chart_helpers):
                yield f"manifests/helm/tfoperator/templates/_helpers.tpl lacks {text} for {named}"


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _refusal(setting: Setting, value: object) -> str:
    try:
        setting.option.kind.parse(value)
    except ValueError as error:
        return str(error)
    return ""


def _undeclared_flags(helpers: str, settings: Sequence[Setting]) -> Iterator[str]:
    """Look through the arguments in the chart: each is a flag; a flag with a value unchanged names this value."""
    declared = {setting.name: setting.option for setting in settings if setting.option.on_command_line}
    for flag, value in re.findall(r"^- --([a-z-]+)(?:=(.*))?$", helpers, re.MULTILINE):
        if flag not in declared:
            yield f"manifests/helm/tfoperator/templates/_helpers.tpl passes --{flag}, which is no option"
        elif re.fullmatch(r"\{\{ \.(Values\.[\w.]+)? \}\}", value) and not declared[flag].chart_value:
            yield f"{_DECLARATIONS} lacks the chart_value of {flag}: the chart's templates/_helpers.tpl passes it on"
