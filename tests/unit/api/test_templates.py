from __future__ import annotations

import msgspec
import pytest

from tfoperator.api.templates import PodTemplate, decode_template, is_absent, template_dict


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def test_the_view_holds_what_is_read() -> None:
    template = decode_template(
        raw(
            '{"metadata":{"labels":{"a":"b"},"creationTimestamp":null},"spec":{"schedulerName":"s","containers":'
            '[{"name":"tensorflow","image":"i","env":[],"ports":[{"name":"tfjob-port","containerPort":99}]}]}}'
        )
    )
    assert template.metadata.labels == {"a": "b"}
    assert template.spec.scheduler_name == "s"
    assert (template.spec.containers[0].name, template.spec.containers[0].image) == ("tensorflow", "i")
    assert template.tfjob_port == 99


@pytest.mark.parametrize(
    ("containers", "index", "port"),
    [
        ("[]", None, 2222),
        ('[{"name":"a"},{"name":"tensorflow"}]', 1, 2222),
        ('[{"name":"a","ports":[{"name":"tfjob-port","containerPort":1}]},{"name":"b"}]', 0, 1),
        ('[{"name":"tensorflow","ports":[{"name":"http","containerPort":80}]}]', 0, 2222),
    ],
)
def test_the_container_named_tensorflow_trains_else_the_first(containers: str, index: int | None, port: int) -> None:
    template = decode_template(raw(f'{{"spec":{{"containers":{containers}}}}}'))
    assert (template.training_container_index, template.tfjob_port) == (index, port)


@pytest.mark.parametrize("text", ["", "null"])
def test_an_absent_template_is_empty(text: str) -> None:
    assert is_absent(raw(text))
    assert decode_template(raw(text)) == PodTemplate()
    assert template_dict(raw(text)) == {}


def test_nulls_count_as_absent() -> None:
    assert decode_template(raw('{"metadata":null,"spec":{"containers":null}}')) == PodTemplate()


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
