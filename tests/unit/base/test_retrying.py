import pytest

from tfoperator.base.retrying import retry


class Call:
    """Fails with each of the errors in turn, then returns "done"."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def is_os_error(error: Exception) -> bool:
    return isinstance(error, OSError)


def test_a_call_is_made_again_after_each_error_that_is_worth_it_and_a_pause() -> None:
    first, second, pauses = OSError("1"), OSError("2"), list[tuple[int, Exception]]()
    call = Call(first, second)
    result = retry(call, attempts=3, worth_it=is_os_error, pause=lambda failed, error: pauses.append((failed, error)))
    assert (result, call.calls, pauses) == ("done", 3, [(1, first), (2, second)])


def test_the_last_error_is_raised_as_it_is_and_no_pause_follows_it() -> None:
    call, pauses = Call(*(OSError(str(number)) for number in range(5))), list[int]()
    with pytest.raises(OSError, match="2") as raised:
        retry(call, attempts=3, worth_it=is_os_error, pause=lambda failed, _: pauses.append(failed))
    assert (pauses, raised.value.__context__) == ([1, 2], None)


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_an_error_that_is_not_worth_it_ends_the_attempts(error: BaseException) -> None:
    calls = list[int]()

    def call() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        retry(call, attempts=3, worth_it=is_os_error, pause=lambda *_: pytest.fail("a pause"))
    assert calls == [1]


def test_a_pause_may_end_the_attempts() -> None:
    def pause(_failed: int, _error: Exception) -> None:
        raise InterruptedError("stopping")

    call = Call(OSError("1"))
    with pytest.raises(InterruptedError):
        retry(call, attempts=3, worth_it=is_os_error, pause=pause)
    assert call.calls == 1
