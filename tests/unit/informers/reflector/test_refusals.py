from __future__ import annotations

import pytest

from tests.unit.informers.support import api_error
from tfoperator.informers.reflector.refusals import is_expired, is_outage, is_too_large_resource_version, is_unsupported
from tfoperator.kube.errors import ConnectionRefused, TransportError


@pytest.mark.parametrize(
    "error",
    [
        api_error(504, "Timeout", reason="Timeout", cause="ResourceVersionTooLarge"),
        api_error(504, "Timeout", reason="Timeout", cause_message="Too large resource version"),
        api_error(504, "Timeout: Too large resource version: 9, current: 3", reason="Timeout"),
        api_error(504, "Too large resource version: 9"),
    ],
)
def test_a_version_from_the_future_is_recognised_in_every_dialect(error: Exception) -> None:
    assert is_too_large_resource_version(error)


@pytest.mark.parametrize(
    "error",
    [
        api_error(504, "Timeout: etcd is slow", reason="Timeout"),
        api_error(400, "label 'Too large resource version' is invalid", reason="BadRequest"),
        TransportError("Too large resource version"),
    ],
)
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert not is_too_large_resource_version(error)


def test_expired_is_a_code_or_a_reason() -> None:
    assert is_expired(api_error(410))
    assert is_expired(api_error(0, reason="Expired"))
    assert not is_expired(api_error(404, reason="NotFound"))


def test_an_outage_is_what_the_server_can_not_help() -> None:
    assert all(map(is_outage, [ConnectionRefused(""), TransportError(""), api_error(500), api_error(503)]))
    assert not any(map(is_outage, [api_error(403), api_error(410), api_error(429), ValueError()]))


def test_unsupported_is_what_an_old_server_says_to_new_parameters() -> None:
    assert all(map(is_unsupported, [api_error(400), api_error(405), api_error(422)]))
    assert not any(map(is_unsupported, [api_error(403), api_error(410), api_error(500), TransportError("")]))
