from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.fields.quantity import format_quantity, is_binary, parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        (2, 2),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("500m", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
        ("3u", Fraction(3, 10**6)),
        ("2k", 2000),
        ("8Gi", 8 * 1024**3),
        ("1.5Gi", 3 * 1024**3 // 2),
        ("12E", 2**63 - 1),
        ("12e3", 12000),
        ("1E2", 100),
        ("1e-3", Fraction(1, 1000)),
        ("+4", 4),
        ("-0", 0),
        ("9e99", 2**63 - 1),
    ],
)
def test_a_quantity_is_the_number_that_kubernetes_takes_it_for(text: object, number: Fraction) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "much", "1 Gi", "1GiB", "1e", "1e999999999", "-1", "\N{ARABIC-INDIC DIGIT ONE}", "1" * 65),
        *(None, True, 1.5, {}),
    ],
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("number", "binary", "text"),
    [
        (Fraction(0), False, "0"),
        (Fraction(3, 2), False, "1500m"),
        (Fraction(1000), False, "1k"),
        (Fraction(1500), False, "1500"),
        (Fraction(16 * 1024**3), True, "16Gi"),
        (Fraction(1536), True, "1536"),
        (Fraction(3 * 1024**2 // 2), True, "1536Ki"),
        (Fraction(1, 3 * 10**9), False, "1n"),
    ],
)
def test_a_number_is_written_the_short_way(number: Fraction, binary: bool, text: str) -> None:
    assert format_quantity(number, binary=binary) == text


@given(st.integers(0, 2**63 - 1), st.sampled_from([1, 10**3, 10**9]), st.booleans())
def test_what_is_written_reads_as_the_same_number(amount: int, divisor: int, binary: bool) -> None:
    number = Fraction(amount, divisor)
    assert parse_quantity(format_quantity(number, binary=binary)) == number


def test_only_binary_suffixes_are_binary() -> None:
    assert [is_binary(amount) for amount in ("1Gi", "1G", "1", 1)] == [True, False, False, False]
