import pytest

from tfoperator.api.loading import ManifestError, parse_manifests
from tfoperator.api.loading.templates import template_expression, templated_fields

MANIFEST = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata:\n  name: {}\n"


@pytest.mark.parametrize(
    "text",
    [
        "{{ .Release.Name }}-x",
        "{{- if .Values.gpu }}",
        '{{ include "chart.name" . }}',
        "{{ $name }}",
        "a\n{{ .Values.image | quote }}",
    ],
)
def test_a_helm_template_that_can_not_be_read_is_named_as_such(text: str) -> None:
    assert template_expression(text) is not None
    with pytest.raises(ManifestError, match=r"Line 4 has `\{\{.*helm template CHART"):
        parse_manifests(MANIFEST.format("{{ .Release.Name }}-x"))


@pytest.mark.parametrize("text", ["{{inputs.parameters.x}}", "${{ secrets.TOKEN }}", "{a: {b: c}}", "{{ .Values", ""])
def test_other_braces_are_no_helm_template(text: str) -> None:
    assert template_expression(text) is None


def test_a_broken_manifest_that_is_no_template_has_no_such_hint() -> None:
    with pytest.raises(ManifestError) as raised:
        parse_manifests(MANIFEST.format("{{ a }}"))
    assert "Helm" not in str(raised.value)


def test_the_fields_with_expressions_are_found_at_every_depth() -> None:
    value = {"metadata": {"name": "{{ .Release.Name }}"}, "spec": {"a": [1, {"b": "x{{ .Values.b }}"}], "c": "plain"}}
    assert list(templated_fields(value)) == ["metadata.name", "spec.a[1].b"]
