from __future__ import annotations

import pytest

from tfoperator.kube.errors import AlreadyExistsError, ConflictError, NotFoundError, Status
from tfoperator.kube.retry import retry_on_conflict


def conflict(number: int) -> ConflictError:
    return ConflictError(Status(code=409, reason="Conflict", message=f"conflict {number}"))


def test_it_tries_again_until_there_is_no_conflict() -> None:
    calls: list[int] = []
    pauses: list[float] = []

    def update() -> str:
        calls.append(len(calls))
        if len(calls) < 4:
            raise conflict(len(calls))
        return "done"

    assert retry_on_conflict(update, sleep=pauses.append) == "done"
    assert len(calls) == 4
    assert len(pauses) == 3
    assert all(0.010 <= pause <= 0.011 for pause in pauses)


def test_the_last_conflict_is_raised_after_five_tries() -> None:
    calls: list[int] = []

    def update() -> None:
        calls.append(1)
        raise conflict(len(calls))

    with pytest.raises(ConflictError, match="conflict 5"):
        retry_on_conflict(update, sleep=lambda _: None)
    assert len(calls) == 5


@pytest.mark.parametrize("error", [NotFoundError(Status(code=404)), AlreadyExistsError(Status(code=409))])
def test_other_errors_end_it_at_once(error: Exception) -> None:
    calls: list[int] = []

    def update() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        retry_on_conflict(update)
    assert len(calls) == 1
