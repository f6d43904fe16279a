import traceback
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.report.traceback_text import Frame, Traceback, folded, last_traceback


def found_in(lines: list[str]) -> Traceback:
    parsed = last_traceback(lines)
    assert parsed is not None
    return parsed


def lines_of(function: Callable[[], object]) -> list[str]:
    """Return the lines that Python itself prints when the function fails."""
    try:
        function()
    except Exception:  # noqa: BLE001 - whatever it is
        return traceback.format_exc().splitlines()
    raise AssertionError("it did not fail")


def fail() -> None:
    raise ValueError("bad shape")


def fail_because() -> None:
    try:
        fail()
    except ValueError as error:
        raise RuntimeError("step 3 failed") from error


def fail_while_handling() -> None:
    try:
        fail()
    except ValueError:
        {}["missing"]


def test_a_traceback_of_this_python_is_read_of_several_the_last_and_a_launchers_prefix_or_a_cut_do_no_harm() -> None:
    parsed = found_in(["step 1", *lines_of(fail), "bye"])
    assert parsed.exception == "ValueError: bad shape"
    assert [frame.function for frame in parsed.frames] == ["lines_of", "fail"]
    assert parsed.frames[-1].code == 'raise ValueError("bad shape")'
    assert parsed.frames[-1].file == __file__
    assert parsed.before is None
    parsed = found_in([*lines_of(fail), "trying again", *lines_of(lambda: int("x"))])
    assert parsed.exception.startswith("ValueError: invalid literal")
    assert parsed.before is None
    text = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "E: first", "second"]
    parsed = found_in([*text, "2026-01-01 00:00:00 INFO done", "W0101 00:00:00.000 glog"])
    assert parsed.more == ("second",)
    parsed = found_in([f"[1,0]<stderr>:{line}" for line in lines_of(fail)])
    assert parsed.exception == "ValueError: bad shape"
    assert parsed.frames[-1].function == "fail"
    cut = found_in(["Traceback (most recent call last):", '  File "a.py", line 1, in f'])
    assert "the exception is not known" in cut.exception
    assert last_traceback(["Detected at node 'x' defined at (most recent call last):", '  File "a.py", line 1']) is None


@pytest.mark.parametrize(
    ("function", "relation", "exception"),
    [(fail_because, "cause", "RuntimeError: step 3 failed"), (fail_while_handling, "context", "KeyError: 'missing'")],
)
def test_chained_exceptions_are_kept_together(function: Callable[[], None], relation: str, exception: str) -> None:
    parsed = found_in(lines_of(function))
    assert (parsed.exception, parsed.relation) == (exception, relation)
    assert parsed.before.exception == "ValueError: bad shape"


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("/usr/lib/python3.11/threading.py", "threading"),
        ("/venv/lib/python3.11/site-packages/keras/src/trainer.py", "keras"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy"),
        ("<frozen runpy>", "runpy"),
        ("/src/tensorflow/python/eager/execute.py", "tensorflow"),
        ("train.py", ""),
        ("/app/keras_model.py", ""),
        ("<stdin>", ""),
    ],
)
def test_files_of_libraries_are_told_from_the_users(file: str, library: str) -> None:
    parsed = found_in(["Traceback (most recent call last):", f'  File "{file}", line 7, in f', "E"])
    assert parsed.frames[0].library == library


def test_calls_within_libraries_are_folded_but_for_the_last() -> None:
    def frame(library: str) -> Frame:
        return Frame("f.py", 1, "f", library=library)

    user, keras, tensorflow = frame(""), frame("keras"), frame("tensorflow")
    assert folded([user, keras, keras, tensorflow]) == [user, "(2 calls in keras)", tensorflow]
    assert folded([user, keras, tensorflow, user]) == [user, "(2 calls in keras, tensorflow)", user]
    assert folded([]) == []


_PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    code()",
        "    ^^^^^^",
        "ValueError: x",
        "During handling of the above exception, another exception occurred:",
        "",
        "  | ",
    ]
)


@given(st.lists(_PIECES | st.text(max_size=40), max_size=40))
def test_no_log_makes_it_fail(lines: list[str]) -> None:
    parsed = last_traceback(lines)
    assert (parsed is not None) == any("Traceback (most recent call last):" in line for line in lines)
