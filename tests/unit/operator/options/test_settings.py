"""A declaration of an option is enough: what else is written about it is made from it, or compared with it."""

import re
from pathlib import Path
from typing import Annotated, get_args

import msgspec
import pytest

from hack.options import Documents, missing_facts, options_markdown, read_documents
from tfoperator.controller import PlanOptions
from tfoperator.operator import Options
from tfoperator.operator.options.planning import plan_options
from tfoperator.operator.options.settings import SETTINGS, Option, settings_of
from tfoperator.operator.options.values import choices, integers

ROOT = Path(__file__).resolve().parents[4]
HELM = "manifests/helm/tfoperator"


@pytest.fixture(scope="module")
def documents() -> Documents:
    return read_documents()


def test_every_option_is_documented_and_the_charts_values_are_as_declared(documents: Documents) -> None:
    missing = missing_facts(documents)
    assert not missing, "\n".join(missing)
    assert documents.options_page == options_markdown(), "docs/options.md is out of date: run python hack/generate.py"


class WithFrobs(Options, frozen=True, kw_only=True):
    frobs: Annotated[int, Option("frobs at a time", integers(1, 9))] = 3


class WithChartValue(Options, frozen=True, kw_only=True):
    frob_mode: Annotated[str, Option("how to frob", choices("MODE", "fast", "slow"), chart_value="frob.mode")] = "fast"


def test_a_new_option_without_a_word_of_documentation_is_missed(documents: Documents) -> None:
    missed = "docs/options.md lacks the row of frobs: run python hack/generate.py"
    assert missing_facts(documents, settings_of(WithFrobs)) == [missed]
    made = documents._replace(options_page=options_markdown(settings_of(WithFrobs)))
    assert missing_facts(made, settings_of(WithFrobs)) == []
    assert "| `--frobs` | `3` | a whole number from 1 to 9 | frobs at a time |  |" in made.options_page


def test_each_place_of_the_chart_that_lacks_a_new_value_is_named(documents: Documents) -> None:
    settings = settings_of(WithChartValue)
    made = documents._replace(options_page=options_markdown(settings))
    of = "for frob.mode, the value of --frob-mode"
    assert missing_facts(made, settings) == [
        f"{HELM}/values.yaml lacks frob.mode, the value of --frob-mode",
        f'{HELM}/values.schema.json lacks {{"type": "string", "enum": ["fast", "slow"]}} {of}',
        f"{HELM}/templates/_helpers.tpl lacks - --frob-mode {of}",
        f"{HELM}/templates/_helpers.tpl lacks .Values.frob.mode {of}",
    ]


def test_a_default_or_a_bound_that_was_changed_in_one_place_only_is_named(documents: Documents) -> None:
    page = documents.operator_page.replace("| `--threadiness` | 8 |", "| `--threadiness` | 9 |")
    page = page.replace("| `--leader-elect` |", "| `--elect-leader` |")
    values = documents.chart_values.replace("maxBytes: 10Gi", "maxBytes: plenty")
    schema = documents.chart_schema.replace('"PerJob"', '"ForJob"')
    helpers = documents.chart_helpers + "- --log-level={{ .Values.logLevel }}\n- --frobs=3\n"
    changed = Documents(documents.options_page, page, values, schema, helpers)
    enum = '{"type": "string", "enum": ["", "PerReplica", "PerJob"]}'
    size = "must be a size above 0, such as 10Gi or 500M, but is 'plenty'"
    assert sorted(missing_facts(changed)) == [
        "docs/operator.md has '9' as the default of --threadiness, which is '8'",
        "docs/operator.md has a row of --elect-leader, which is no option",
        f"{HELM}/templates/_helpers.tpl passes --frobs, which is no option",
        f"{HELM}/values.schema.json lacks {enum} for defaultNetwork, the value of --default-network",
        f"{HELM}/values.yaml: logArchive.maxBytes, the value of --archive-max-bytes, {size}",
        "tfoperator/operator/options/settings.py lacks the chart_value of log-level: "
        "the chart's templates/_helpers.tpl passes it on",
    ]


class Undeclared(Options, frozen=True, kw_only=True):
    frobs: int = 3


class WithoutMeaning(Options, frozen=True, kw_only=True):
    frobs: Annotated[int, Option("", integers(1, 9))] = 3


@pytest.mark.parametrize("options", [Undeclared, WithoutMeaning])
def test_a_field_without_a_meaning_is_refused(options: type[Options]) -> None:
    with pytest.raises(TypeError, match=r"the option frobs has no description: .* frobs: Annotated\[TYPE, Option\("):
        settings_of(options)


def test_every_option_is_read_by_the_operator_or_is_one_of_plans() -> None:
    sources = [path for path in (ROOT / "tfoperator/operator").rglob("*.py") if path.name != "settings.py"]
    read = set(re.findall(r"options\.(\w+)", "".join(path.read_text() for path in sources)))
    unread = {setting.field for setting in SETTINGS} - read - set(PlanOptions.__struct_fields__)
    assert not unread, f"nothing in tfoperator/operator reads {', '.join(sorted(unread))}, which Options declares"


def test_defaults_are_values_of_their_kind() -> None:
    for setting in SETTINGS:
        if setting.written_default:
            assert setting.option.kind.parse(setting.written_default) == setting.default, setting.name


def test_options_of_plans_have_the_type_of_the_option_of_their_name_and_no_default_of_their_own() -> None:
    declared = {field.name: get_args(field.type)[0] for field in msgspec.structs.fields(Options)}
    shared = [field for field in msgspec.structs.fields(PlanOptions) if field.name in declared]
    assert len(shared) == 10
    for field in shared:
        assert field.type == declared[field.name], field.name
        assert field.required, f"{field.name} has a default in PlanOptions, too: the default of Options is the only one"


def test_options_of_plans_are_made_from_the_operators_options() -> None:
    options = Options(cluster_domain="x", gang_scheduler_name="volcano", unique_names=True, default_network="PerJob")
    made = plan_options(options, node_lost_margin=5.0)
    assert (made.cluster_domain, made.network, made.node_lost_margin) == ("x", "PerJob", 5.0)
    assert made.gang is not None
    assert made.naming != plan_options(Options()).naming
