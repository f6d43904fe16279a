import pytest

from tfoperator.local.apiserver.members import query_flag


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        *(({"watch": said}, True) for said in ("true", "1", "True", "TRUE", "t", "yes", "")),
        *(({"watch": said}, False) for said in ("false", "0", "False", "FALSE")),
        ({"follow": "true"}, False),
    ],
)
def test_a_flag_of_a_query_is_read_as_api_servers_read_it(said: dict[str, str], meant: bool) -> None:
    assert query_flag(said, "watch") is meant
