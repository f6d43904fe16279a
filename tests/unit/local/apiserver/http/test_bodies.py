import pytest

from tests.unit.local.apiserver.samples import refused
from tfoperator.local.apiserver.http.bodies import decode_delete_options, decode_object


@pytest.mark.parametrize("body", [b"{", b'{"propagationPolicy": "\xff"}', b'{"preconditions":' + b"[" * 100_000])
def test_a_body_that_can_not_be_read_is_a_bad_request(body: bytes) -> None:
    for read in (decode_object, lambda media, text: decode_delete_options(media, text, {})):
        with refused(400):
            read("application/json", body)


@pytest.mark.parametrize(
    "grace", ["", "x", "--5", "1-", "\u00b2", "1e3", *("9" * digits for digits in (20, 400, 5000))]
)
def test_a_grace_period_has_to_be_a_number_of_64_bits_and_may_be_negative(grace: str) -> None:
    with refused(400):
        decode_delete_options("", b"", {"gracePeriodSeconds": grace})
    if grace.isdecimal():
        with refused(400):
            decode_delete_options("application/json", b'{"gracePeriodSeconds": %b}' % grace[1:].encode(), {})
    assert decode_delete_options("", b"", {"gracePeriodSeconds": "-1"}).grace_period_seconds == -1
