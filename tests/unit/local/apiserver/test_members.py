from __future__ import annotations

import pytest

from tfoperator.local.apiserver.members import query_flag


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        *((said, True) for said in ("true", "1", "True", "TRUE", "t", "yes", "")),
        *((said, False) for said in ("false", "0", "False", "FALSE")),
    ],
)
def test_a_flag_of_a_query_is_read_as_api_servers_read_it(said: str, meant: bool) -> None:
    assert query_flag({"watch": said}, "watch") is meant


def test_an_absent_flag_says_no() -> None:
    assert query_flag({"follow": "true"}, "watch") is False
