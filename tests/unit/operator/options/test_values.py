from collections.abc import Callable
from typing import Any

import pytest

from tfoperator.operator.options import values as parse
from tfoperator.servers.http.limits import Address


def from_1_to_5(written: object) -> object:
    return parse.integer(1, 5)(written)


HTTPS = ("", "https://127.0.0.1:9443/convert", "https://[::1]/x", "https://host")
GOOD: dict[Callable[[Any], object], dict[Any, object]] = {
    parse.duration: {
        "15s": 15, "5m": 300, "1h30m": 5400, "250ms": 0.25, "1.5s": 1.5, 20: 20, "20": 20
    },
    parse.seconds: {"0": 0},  # a delay, but no period
    parse.address: {
        ":8080": Address("", 8080), "127.0.0.1:0": Address("127.0.0.1", 0), "[::1]:9": Address("::1", 9),
        "0": None, 0: None,
    },
    parse.boolean: {"true": True, "False": False, True: True, "0": False},
    from_1_to_5: {"3": 3},
    parse.size: {
        "10Gi": 10 << 30, "500M": 500_000_000, "64Mi": 64 << 20, "1Ti": 1 << 40, "4096": 4096, 7: 7
    },
    parse.https_url: {url: url for url in HTTPS},  # an https address is taken as it is
    parse.namespaces: {("a,b", "c", "a"): ("a", "b", "c"), "": ()},  # with commas or as a list; each counts once
}  # fmt: skip
BAD: list[tuple[Callable[[Any], object], str, tuple[Any, ...]]] = [
    (parse.duration, "must be", ("", "abc", "5 minutes", "-1s", "15sx", "nan", "inf", True, "0", "0s")),
    (parse.address, "must", ("8080", "host", "host:", "host:x", "host:70000", "::1:80", "host:-1")),
    (from_1_to_5, "must be", ("0", "6", "x", "2.5", True)),
    (parse.number, "must be a number", ("many",)),
    (parse.size, "must be a size", ("", "0", "-1", "1.5Gi", "1gi", "Gi", "1GB", True, "9" * 30)),
    (parse.https_url, "must be", ("host", "http://host/x", "https://", "https:///x", "https://h:x", "https://u@h")),
    (parse.https_url, "must be", ("https://h?q", "https://h#f", 3)),
    (parse.namespaces, "Bad_Name", ("Bad_Name",)),
]


@pytest.mark.parametrize(
    ("kind", "written", "value"), [(kind, *pair) for kind, pairs in GOOD.items() for pair in pairs.items()]
)
def test_values_are_written_as_in_go_and_kubernetes(kind: Callable[[Any], object], written: Any, value: object) -> None:
    assert kind(list(written) if isinstance(written, tuple) else written) == value


@pytest.mark.parametrize(("kind", "words", "written"), [(*kind, value) for *kind, given in BAD for value in given])
def test_what_is_no_value_of_its_kind_is_refused(kind: Callable[[Any], object], words: str, written: Any) -> None:
    with pytest.raises(ValueError, match=words):
        kind(written)


def test_an_address_and_a_size_read_as_they_are_written() -> None:
    assert [str(Address(host, 80)) for host in ("::1", "")] == ["[::1]:80", ":80"]
    for count in GOOD[parse.size].values():
        assert parse.size(parse.shown_size(count)) == count
