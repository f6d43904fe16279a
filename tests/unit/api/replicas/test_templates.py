import msgspec
import pytest

from tfoperator.api.replicas.templates import PodTemplate, decode_template, is_absent, template_dict


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        # The output of a webhook in Go for no template.
        '{"metadata":{},"spec":{"containers":null}}',
        '{"metadata":{"creationTimestamp":null},"spec":{"containers":null}}',
        '{"metadata":null,"spec":{"containers":null,"volumes":null}}',
        '{"spec":{"containers":null}}',
    ],
)
def test_an_absent_template_is_empty(text: str) -> None:
    assert is_absent(raw(text))
    assert decode_template(raw(text)) == PodTemplate()
    assert template_dict(raw(text)) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"spec":{}}',
        '{"spec":null}',
        '{"spec":{"containers":[]}}',
        '{"spec":{"containers":null,"nodeSelector":{"a":"b"}}}',
        '{"metadata":{"labels":{"a":"b"}},"spec":{"containers":null}}',
        '{"metadata":[null],"spec":{"containers":null}}',
        '{"spec":{"containers":null},"more":null}',
        '{"spec":{"containers":null,"volumes":[null]}}',
        "[null]",
    ],
)
def test_a_template_that_says_anything_is_there(text: str) -> None:
    assert not is_absent(raw(text))


def test_plain_data_is_whole_and_belongs_to_the_caller() -> None:
    template = raw('{"spec":{"volumes":[{"name":"v"}]}}')
    first = template_dict(template)
    first["spec"]["volumes"].clear()
    assert template_dict(template) == {"spec": {"volumes": [{"name": "v"}]}}


@pytest.mark.parametrize("text", ["[]", '"x"', "3"])
def test_what_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_template(raw(text))
    with pytest.raises(msgspec.ValidationError):
        template_dict(raw(text))
