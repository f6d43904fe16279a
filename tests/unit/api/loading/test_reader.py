import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.loading.reader import Manifest, ManifestError, load_manifests, parse_manifests, to_yaml
from tfoperator.base.yamldata.reader import MAX_BYTES


def parsed(text: str) -> dict[str, Any]:
    (manifest,) = parse_manifests(text)
    return manifest.obj


def refusal(text: str | bytes) -> str:
    with pytest.raises(ManifestError) as caught:
        parse_manifests(text, "job.yaml")
    return str(caught.value)


def test_every_document_is_an_object_with_its_line_and_a_list_is_opened() -> None:
    manifests = parse_manifests("---\na: 1\n---\n# nothing\n---\n\nb: 2\n...\n", "f")
    assert [(m.obj, m.source, m.line) for m in manifests] == [({"a": 1}, "f", 2), ({"b": 2}, "f", 7)]
    text = "kind: List\napiVersion: v1\nitems:\n- kind: A\n  spec:\n    x: 1\n- kind: B\n"
    first, second = parse_manifests(text)
    assert (first.obj, second.obj) == ({"kind": "A", "spec": {"x": 1}}, {"kind": "B"})
    assert (first.line, first.line_of("spec.x"), second.line) == (4, 6, 7)


def test_a_field_knows_its_line_however_its_path_is_written() -> None:
    (manifest,) = parse_manifests("spec:\n  tfReplicaSpecs:\n    Worker:\n      c:\n      - name: x\n      - name: y\n")
    assert manifest.line_of("spec.tfReplicaSpecs[Worker].c[1].name") == 6
    assert manifest.line_of("spec.tfReplicaSpecs[Worker].c[1].image") == 6
    assert manifest.line_of("spec.tfReplicaSpecs[Worker].replicas") == 3
    assert manifest.line_of("metadata.name") == 1


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        *((text, text) for text in ("2024-01-31", "12:30:45", "=", "y")),
        ("yes", True),
        ("Off", False),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("-12", -12),
        ("1_000", 1000),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        *((text, None) for text in ("~", "")),
        ("089", 89.0),
        ("'yes'", "yes"),
        ("!!str 1", "1"),
        ('"\\u00e9"', "é"),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(scalar: str, value: object) -> None:
    assert parsed(f"v: {scalar}\n") == {"v": value}


def test_keys_become_text_an_alias_is_a_copy_and_merge_keys_add_what_is_not_there() -> None:
    assert parsed("1: a\ntrue: b\nx: c\n") == {"1": "a", "true": "b", "x": "c"}
    obj = parsed("a: &t {x: [1]}\nb: *t\n")
    assert obj == {"a": {"x": [1]}, "b": {"x": [1]}}
    assert obj["a"] is not obj["b"]
    text = "base: &b {x: 1, y: 1}\nother: &o {y: 2, z: 2}\nv:\n  <<: [*b, *o]\n  x: 0\n"
    assert parsed(text)["v"] == {"x": 0, "y": 1, "z": 2}


# YAML has no surrogate pairs, which is how JSON escapes what lies beyond the basic plane.
words = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=5)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(words, children, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(words, json_values, max_size=3))
def test_json_is_read_as_json(obj: dict[str, Any]) -> None:
    assert parsed(json.dumps(obj)) == obj


@given(st.text(max_size=60) | st.text(alphabet="{}[]:,-&*<!|>'\"\n\t #a1?%@`", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        manifests = parse_manifests(text)
    except ManifestError:
        return
    assert all(isinstance(manifest, Manifest) for manifest in manifests)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", "job.yaml:3:2: is not valid YAML: did not find expected ',' or ']'"),
        ("a:\n\t- b\n", "job.yaml:2:1: is not valid YAML: found character that cannot start any token"),
        ("a: 1\na: 2\n", "job.yaml:2:1: key 'a' is here a second time"),
        ("a: .nan\n", "job.yaml:1:4: '.nan' can't be a value of type float in JSON"),
        ("a: !!binary aGk=\n", "job.yaml:1:4: tag tag:yaml.org,2002:binary is not supported here"),
        ("a: !!python/object:os.system {}\n", "job.yaml:1:4: tag tag:yaml.org,2002:python/object:os.system is not"),
        ("a: *b\n", "job.yaml:1:4: alias *b has no complete value with the anchor &b before it"),
        ("a: &a [*a]\n", "job.yaml:1:8: alias *a has no complete value with the anchor &a before it"),
        ("[1]: 2\n", "job.yaml:1:1: this is not text, so it can't be a key"),
        ("v: {<<: 1}\n", "job.yaml:1:9: '<<' must have a mapping or a list of mappings as its value"),
        ("- a\n", "job.yaml:1:1: must be an object with apiVersion and kind"),
        ("just words\n", "job.yaml:1:1: must be an object with apiVersion and kind"),
        ("kind: List\nitems:\n- 1\n", "job.yaml:3: items[0]: must be an object"),
        ("", "job.yaml: holds no object"),
        ("# only a comment\n---\n", "job.yaml: holds no object"),
        (b"a: 1\nb: \xff\n", "job.yaml:2: is not UTF-8 text (byte 8)"),
        ("a: \x00\n", "job.yaml: is not valid YAML"),
    ],
)
def test_a_refusal_names_the_place(text: str | bytes, message: str) -> None:
    assert refusal(text).startswith(message)


def multiplied(use: str) -> str:
    levels = ["l0: &l0 {x: y}"]
    return "\n".join(levels + [f"l{i}: &l{i} {use.format(', '.join([f'*l{i - 1}'] * 10))}" for i in range(1, 12)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#" * (MAX_BYTES + 1), "job.yaml: is larger than 10 MiB"),
        ("a: " + "[" * 5000, "has more than 100 levels of nesting"),
        ("\n".join(" " * i + "a:" for i in range(2000)), "has more than 100 levels of nesting"),
        (multiplied("[{}]"), "has more than 1000000 values, including the values of its aliases"),
        (multiplied("{{<<: [{}]}}"), "has more than 1000000 values, including the values of its aliases"),
    ],
    ids=["large", "deep", "deep by lines", "aliases that multiply", "merge keys that multiply"],
)
def test_a_file_made_to_do_harm_is_refused(text: str, message: str) -> None:
    assert message in refusal(text)


def test_lines_of_a_file_made_to_be_large_stay_few() -> None:
    (manifest,) = parse_manifests("k" * 900 + ":\n" + "- x\n" * 50_000)
    assert len(manifest.lines) <= 20_000


def test_a_file_is_loaded_by_its_name_and_a_dash_is_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes("a: é\n".encode("utf-16"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\n")))
    [named], [read] = load_manifests(path), load_manifests("-")
    assert (named.obj, named.source) == ({"a": "é"}, str(path))
    assert (read.obj, read.source) == ({"a": 1}, "<stdin>")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, message in [
        (tmp_path / "no.yaml", "no such file"),
        (tmp_path, "is a directory: give the names of the manifests in it"),
    ]:
        with pytest.raises(ManifestError) as caught:
            load_manifests(path)
        assert str(caught.value) == f"{path}: {message}"
    with pytest.raises(ManifestError, match="null byte"):
        load_manifests("a\0b")


# YAML 1.1 has no surrogate pairs beyond the basic plane in PyYAML's own writer, nor control characters unescaped.
yaml_texts = (
    st.text(max_size=8)
    | st.text("0123456789eE+-._:xobynYN~<=", max_size=6)
    | st.text(" \n\t#'\"-:|>a\u00e9\u2028\x85", max_size=10)
)
yaml_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | yaml_texts,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(yaml_texts, children, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(yaml_texts, yaml_values, max_size=3), min_size=1, max_size=2))
def test_what_is_written_is_read_again(objects: list[dict[str, Any]]) -> None:
    text = to_yaml(objects)
    assert [manifest.obj for manifest in parse_manifests(text)] == objects
    assert list(yaml.safe_load_all(text)) == objects


@pytest.mark.parametrize("text", ["1e3", "0o17", "12:30", "yes", "null", "2024-01-31", "=", "<<", "0b1", "1_000"])
def test_text_that_anybody_takes_for_something_else_is_quoted(text: str) -> None:
    assert to_yaml([{"v": text}]) == f"v: '{text}'\n"


def test_yaml_reorders_nothing_that_is_shown_and_writes_shared_parts_twice_and_programs_line_by_line() -> None:
    objects = [{"v": "loss \u202e1.0"}, {"v": "\u05d0"}]
    text = to_yaml(objects)
    assert "\u202e" not in text
    assert list(yaml.safe_load_all(text)) == objects
    shared = {"command": "a\nb\n"}
    assert to_yaml([{"x": shared, "y": shared}]) == "x:\n  command: |\n    a\n    b\ny:\n  command: |\n    a\n    b\n"
