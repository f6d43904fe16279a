from __future__ import annotations

import pytest

from tfoperator.local.apiserver.bodies import decode_delete_options, decode_object
from tfoperator.local.apiserver.errors import StatusError

BAD = (b"", b"{", b'{"propagationPolicy": "\xff"}', b'{"preconditions":' + b"[" * 100_000)


@pytest.mark.parametrize("body", BAD)
def test_an_object_that_can_not_be_read_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(StatusError) as caught:
        decode_object("application/json", body)
    assert caught.value.code == 400


@pytest.mark.parametrize("body", BAD[1:])
def test_options_of_a_deletion_that_can_not_be_read_are_a_bad_request(body: bytes) -> None:
    with pytest.raises(StatusError) as caught:
        decode_delete_options("application/json", body, {})
    assert caught.value.code == 400


@pytest.mark.parametrize("grace", ["", "x", "--5", "1-", "\u00b2", "1e3"])
def test_a_grace_period_that_is_no_number_is_a_bad_request(grace: str) -> None:
    with pytest.raises(StatusError) as caught:
        decode_delete_options("", b"", {"gracePeriodSeconds": grace})
    assert caught.value.code == 400


def test_a_grace_period_may_be_negative() -> None:
    assert decode_delete_options("", b"", {"gracePeriodSeconds": "-1"}).grace_period_seconds == -1
