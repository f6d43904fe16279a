from __future__ import annotations

import pytest

from tfoperator.operator.options import values as parse
from tfoperator.servers.http import Address


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("15s", 15), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("1.5s", 1.5), (20, 20), ("20", 20)],
)
def test_durations_are_written_as_in_go_or_as_seconds(written: object, seconds: float) -> None:
    assert parse.duration(written) == seconds


@pytest.mark.parametrize("written", ["", "abc", "5 minutes", "-1s", "15sx", "nan", "inf", True, "0", "0s"])
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse.duration(written)


def test_zero_is_a_delay_but_no_period() -> None:
    assert parse.seconds("0") == 0


@pytest.mark.parametrize(
    ("written", "address"),
    [
        (":8080", Address("", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:9", Address("::1", 9)),
        ("0", None),
        (0, None),
    ],
)
def test_addresses_are_host_and_port_or_none(written: object, address: Address | None) -> None:
    assert parse.address(written) == address


@pytest.mark.parametrize("written", ["8080", "host", "host:", "host:x", "host:70000", "::1:80", "host:-1"])
def test_what_is_no_address_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="must"):
        parse.address(written)


def test_an_address_reads_as_it_is_written() -> None:
    assert str(Address("::1", 80)) == "[::1]:80"
    assert str(Address("", 80)) == ":80"


@pytest.mark.parametrize(("written", "value"), [("true", True), ("False", False), (True, True), ("0", False)])
def test_booleans(written: object, value: bool) -> None:
    assert parse.boolean(written) is value


def test_namespaces_come_as_list_or_with_commas_and_count_once() -> None:
    assert parse.namespaces(["a,b", "c", "a"]) == ("a", "b", "c")
    assert parse.namespaces("") == ()
    with pytest.raises(ValueError, match="Bad_Name"):
        parse.namespaces("Bad_Name")


def test_numbers_keep_to_their_bounds() -> None:
    assert parse.integer(1, 5)("3") == 3
    for bad in ("0", "6", "x", "2.5", True):
        with pytest.raises(ValueError, match="must be"):
            parse.integer(1, 5)(bad)
    with pytest.raises(ValueError, match="must be a number"):
        parse.number("many")


@pytest.mark.parametrize(
    ("written", "count"),
    [("10Gi", 10 << 30), ("500M", 500_000_000), ("64Mi", 64 << 20), ("1Ti", 1 << 40), ("4096", 4096), (7, 7)],
)
def test_sizes_are_written_as_in_kubernetes_or_as_bytes(written: object, count: int) -> None:
    assert parse.size(written) == count
    assert parse.size(parse.shown_size(count)) == count


@pytest.mark.parametrize("written", ["", "0", "-1", "1.5Gi", "1gi", "Gi", "1GB", True, "9" * 30])
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must be a size"):
        parse.size(written)


@pytest.mark.parametrize("url", ["", "https://127.0.0.1:9443/convert", "https://[::1]/x", "https://host"])
def test_an_https_address_is_taken_as_it_is(url: str) -> None:
    assert parse.https_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["host", "http://host/x", "https://", "https:///x", "https://h:x", "https://u@h", "https://h?q", "https://h#f", 3],
)
def test_what_a_crd_does_not_take_as_an_address_is_refused(url: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse.https_url(url)
