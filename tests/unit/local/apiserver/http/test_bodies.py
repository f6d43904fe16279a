from __future__ import annotations

import pytest

from tests.unit.local.apiserver.samples import refused
from tfoperator.local.apiserver.http.bodies import decode_delete_options, decode_object

BAD = (b"", b"{", b'{"propagationPolicy": "\xff"}', b'{"preconditions":' + b"[" * 100_000)


@pytest.mark.parametrize("body", BAD)
def test_an_object_that_can_not_be_read_is_a_bad_request(body: bytes) -> None:
    with refused(400):
        decode_object("application/json", body)


@pytest.mark.parametrize("body", BAD[1:])
def test_options_of_a_deletion_that_can_not_be_read_are_a_bad_request(body: bytes) -> None:
    with refused(400):
        decode_delete_options("application/json", body, {})


@pytest.mark.parametrize("grace", ["", "x", "--5", "1-", "\u00b2", "1e3", "9" * 20, "9" * 400, "9" * 5000])
def test_a_grace_period_that_is_no_number_is_a_bad_request(grace: str) -> None:
    with refused(400):
        decode_delete_options("", b"", {"gracePeriodSeconds": grace})


def test_a_grace_period_may_be_negative() -> None:
    assert decode_delete_options("", b"", {"gracePeriodSeconds": "-1"}).grace_period_seconds == -1


@pytest.mark.parametrize("digits", [19, 400, 5000])
def test_a_grace_period_of_more_than_64_bits_is_a_bad_request(digits: int) -> None:
    with refused(400):
        decode_delete_options("application/json", b'{"gracePeriodSeconds": %b}' % (b"9" * digits), {})
