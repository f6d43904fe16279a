import pytest

from tests.unit.informers.support import api_error
from tfoperator.kube.protocol import errors
from tfoperator.kube.protocol.errors import ConnectionRefused, Status, StatusDetails, TransportError, error_from_status


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequestError),
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (405, "MethodNotAllowed", errors.MethodNotAllowedError),
        (409, "Conflict", errors.ConflictError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (410, "Expired", errors.GoneError),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaTypeError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
        (504, "Timeout", errors.ServerError),
    ],
)
def test_each_kind_of_answer_has_its_class(code: int, reason: str, expected: type) -> None:
    error = error_from_status(Status(code=code, reason=reason, message="m"), "get pods a/b")
    assert type(error) is expected
    assert (error.code, error.reason, str(error)) == (code, reason, "get pods a/b: m")


def test_the_wish_to_wait_is_taken_from_the_details_unless_a_header_says_it() -> None:
    status = Status(code=429, details=StatusDetails(retry_after_seconds=3))
    assert error_from_status(status).retry_after == 3
    assert error_from_status(status, retry_after=1.0).retry_after == 1.0
    assert error_from_status(Status(code=429)).retry_after is None
    assert errors.InvalidError(Status(code=422)).causes == ()


def test_everything_can_be_caught_as_one() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, errors.KubeError)


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (error_from_status(Status(code=403, reason="Forbidden")), False),
        (error_from_status(Status(code=404, reason="NotFound")), False),
        (error_from_status(Status(code=404, details=StatusDetails(name="ns", kind="namespaces"))), True),
        (errors.TransportError("reset"), False),
    ],
)
def test_only_the_end_of_the_namespace_itself_is_taken_for_one(error: errors.KubeError, ending: bool) -> None:
    assert errors.namespace_is_ending(error) is ending


@pytest.mark.parametrize(
    ("error", "from_the_future"),
    [
        (api_error(504, "Timeout", reason="Timeout", cause="ResourceVersionTooLarge"), True),
        (api_error(504, "Timeout", reason="Timeout", cause_message="Too large resource version"), True),
        (api_error(504, "Timeout: Too large resource version: 9, current: 3", reason="Timeout"), True),
        (api_error(504, "Too large resource version: 9"), True),
        (api_error(504, "Timeout: etcd is slow", reason="Timeout"), False),
        (api_error(400, "label 'Too large resource version' is invalid", reason="BadRequest"), False),
        (TransportError("Too large resource version"), False),
    ],
)
def test_a_version_from_the_future_is_recognised_in_every_dialect(error: Exception, from_the_future: bool) -> None:
    assert errors.is_unavailable_version(error) is from_the_future


def test_expired_is_a_code_or_a_reason_and_an_outage_is_what_the_server_can_not_help() -> None:
    assert all(map(errors.is_expired, [api_error(410), api_error(0, reason="Expired")]))
    assert not errors.is_expired(api_error(404, reason="NotFound"))
    assert all(map(errors.is_outage, [ConnectionRefused(""), TransportError(""), api_error(500), api_error(503)]))
    assert not any(map(errors.is_outage, [api_error(403), api_error(410), api_error(429), ValueError()]))
