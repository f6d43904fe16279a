import pytest

from tfoperator.local.apiserver.members import query_flag


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        *(({"watch": value}, True) for value in ("true", "1", "True", "TRUE", "t", "yes", "")),
        *(({"watch": value}, False) for value in ("false", "0", "False", "FALSE")),
        ({"follow": "true"}, False),
    ],
)
def test_a_flag_of_a_query_is_read_as_api_servers_read_it(query: dict[str, str], meant: bool) -> None:
    assert query_flag(query, "watch") is meant
