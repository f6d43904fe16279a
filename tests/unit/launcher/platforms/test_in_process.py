import contextlib
import io
import sys
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import InThread
from tests.unit.launcher.executors import Copies, Exits, Raises, Says
from tfoperator.launcher import (
    AlreadyFailed,
    Artifact,
    Component,
    DockerPlatformConfig,
    ExecutorClassSpec,
    ExecutorContainerSpec,
    InProcessComponentLauncher,
    LaunchCancelled,
    LaunchContext,
    LocalMetadata,
    LocalOutputStore,
    NoLauncherError,
    PermanentFailure,
    PlatformUnavailable,
    RetryableFailure,
    RetryPolicy,
    WorkDirectoryError,
)
from tfoperator.launcher.platforms.in_process import own_output
from tfoperator.object_store import ObjectStoreError

QUICK = RetryPolicy(attempts=3, initial=0.001)


BUSY = '{"error_status": {"code": "RETRYABLE_ERROR", "message": "busy"}}'


def launcher(component: Component, folder: Path, **context: Any) -> InProcessComponentLauncher:
    """With the working directory `folder/work`."""
    given = {"work_dir": folder / "work", "retry": QUICK, **context}
    return InProcessComponentLauncher(component, context=LaunchContext(**given))


def recording(folder: Path) -> dict[str, LocalMetadata]:
    """Return the options with which a launch records in `folder/records`."""
    records = LocalMetadata(folder / "records")
    return {"driver": records, "publisher": records}


def copies(folder: Path, **more: Any) -> Component:
    (folder / "in").write_text("text")
    inputs, outputs = ({name: [Artifact(str(folder / place))]} for name, place in (("text", "in"), ("copy", "out")))
    return Component("copies", ExecutorClassSpec(Copies), inputs=inputs, outputs=outputs, **more)


def says(folder: Path, *texts: str) -> InProcessComponentLauncher:
    properties = {"says": list(texts), "tries": str(folder / "tries")}
    component = Component("says", ExecutorClassSpec(Says), outputs={"o": [Artifact("/o")]}, exec_properties=properties)
    return launcher(component, folder)


def tries(folder: Path) -> int:
    return int((folder / "tries").read_text())


def test_it_takes_classes_and_no_config() -> None:
    can = InProcessComponentLauncher.can_launch
    assert can(ExecutorClassSpec(Copies))
    assert not can(ExecutorClassSpec(Copies), DockerPlatformConfig())
    assert not can(ExecutorContainerSpec("i"))
    with pytest.raises(NoLauncherError, match="ExecutorContainerSpec with no config"):
        InProcessComponentLauncher(Component("a", ExecutorContainerSpec("i")))


def test_output_json_overrides_what_is_recorded(tmp_path: Path) -> None:
    result = says(tmp_path, '{"outputs": {"o": {"uri": "/elsewhere"}}, "exec_properties": {"rows": 3}}').launch()
    assert result.outputs == {"o": (Artifact("/elsewhere"),)}
    assert result.exec_properties["rows"] == 3
    assert "tmp_path" not in result.exec_properties


def test_tries_come_to_an_end_and_a_relaunch_goes_on_until_it_has_succeeded(tmp_path: Path) -> None:
    with pytest.raises(RetryableFailure, match="busy"):
        says(tmp_path, BUSY, BUSY, BUSY, "").launch()
    assert tries(tmp_path) == 3
    result = says(tmp_path, BUSY, BUSY, BUSY, "").launch()
    assert (result.attempts, result.execution_id) == (4, 1)
    assert says(tmp_path, BUSY, BUSY, BUSY, "").launch() == result
    assert tries(tmp_path) == 4


@pytest.mark.parametrize(
    "text",
    ['{"error_status": {"code": "PERMANENT_ERROR", "message": "bad"}}', "{bad", '{"outputs": {"x": {"uri": "/"}}}'],
)
def test_a_permanent_failure_is_neither_tried_again_nor_launched_again(tmp_path: Path, text: str) -> None:
    with pytest.raises(PermanentFailure, match=r"output\.json"):
        says(tmp_path, text, "").launch()
    with pytest.raises(AlreadyFailed, match="choose another working directory"):
        says(tmp_path, text, "").launch()
    assert tries(tmp_path) == 1


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("PermanentFailure", PermanentFailure, "as told"),
        ("RetryableFailure", RetryableFailure, "as told"),
        ("a bug", PermanentFailure, "as told"),
        ("CancelledError", PermanentFailure, "CancelledError: as told"),
    ],
)
def test_an_exception_may_say_what_failure_it_is(tmp_path: Path, what: str, error: type[Exception], words: str) -> None:
    component = Component("raises", ExecutorClassSpec(Raises), exec_properties={"what": what})
    with pytest.raises(error, match=words):
        launcher(component, tmp_path).launch()


def exits(folder: Path, code: Any, **more: Any) -> InProcessComponentLauncher:
    component = Component("exits", ExecutorClassSpec(Exits), exec_properties={"code": code, **more})
    return launcher(component, folder, **recording(folder))


@pytest.mark.parametrize("code", [0, None, 256])
def test_a_class_that_exits_with_0_has_succeeded_as_a_container_would(tmp_path: Path, code: int | None) -> None:
    assert exits(tmp_path, code).launch().attempts == 1
    assert '"state":"succeeded"' in (tmp_path / "records/exits/1.json").read_text()


@pytest.mark.parametrize(
    ("code", "message"), [(5, "exit code 5$"), (-1, "exit code 255$"), ("no such table", "exit code 1: no such table")]
)
def test_a_class_that_exits_otherwise_has_failed_for_good(tmp_path: Path, code: Any, message: str) -> None:
    with pytest.raises(PermanentFailure, match=message):
        exits(tmp_path, code).launch()
    assert '"state":"failed"' in (tmp_path / "records/exits/1.json").read_text()
    with pytest.raises(AlreadyFailed):
        exits(tmp_path, code).launch()


def test_the_output_json_of_a_class_that_exits_counts_as_that_of_a_container(tmp_path: Path) -> None:
    with pytest.raises(RetryableFailure, match="busy"):
        exits(tmp_path, 3, says=BUSY).launch()


def test_an_equal_execution_is_used_again_if_that_is_wanted(tmp_path: Path) -> None:
    def launch(number: int, **more: Any) -> tuple[int, bool]:
        options = {"cache": True, "work_dir": tmp_path / str(number), **recording(tmp_path)}
        result = launcher(copies(tmp_path, **more), tmp_path, **options).launch()
        return result.execution_id, result.cached

    assert launch(1) == (1, False)
    assert launch(2) == (1, True)
    assert launch(3, exec_properties={"times": 2}) == (2, False)
    assert launch(4) == (1, True)


def test_a_cancelled_launch_begins_no_other_try(tmp_path: Path) -> None:
    cancelled = says(tmp_path, "")
    cancelled.cancel()
    with pytest.raises(LaunchCancelled):
        cancelled.launch()
    assert not (tmp_path / "tries").exists()
    assert says(tmp_path, "").launch().attempts == 1


def test_a_dry_run_names_the_class_and_no_other_component_gets_the_directory_of_the_first(tmp_path: Path) -> None:
    text = launcher(copies(tmp_path), tmp_path).dry_run()
    assert "class: tests.unit.launcher.executors:Copies" in text
    assert f"tmp_path: {tmp_path}/work/tmp" in text
    assert not (tmp_path / "work").exists()
    launcher(copies(tmp_path), tmp_path).launch()
    with pytest.raises(WorkDirectoryError, match="another launch"):
        launcher(copies(tmp_path, exec_properties={"times": 2}), tmp_path).launch()


def test_what_others_print_meanwhile_goes_where_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    with own_output(lines.append):
        print("mine")
        InThread(lambda: print("another's")).result(60)
    print("afterwards")
    assert lines == ["mine"]
    assert capsys.readouterr().out == "another's\nafterwards\n"


def test_the_rest_of_a_stream_is_as_it_was_and_the_last_puts_it_back() -> None:
    before = sys.stdout, sys.stderr
    with own_output(print):
        with own_output(print):
            assert sys.stdout is not before[0]
        assert sys.stdout is not before[0]
        assert (sys.stdout.encoding, sys.stdout.isatty()) == (before[0].encoding, before[0].isatty())
        assert sys.stdout.writable()
    assert (sys.stdout, sys.stderr) == before


def test_what_is_said_of_a_line_goes_on_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A function that gets a line may print it: that is no new line."""
    with own_output(lambda line: print(f"[step] {line}")):
        print("half", end="")
        assert capsys.readouterr().out == ""
        print("-way", flush=True)
        assert capsys.readouterr().out == "[step] half-way\n"
        print("the rest", end="")
    assert capsys.readouterr().out == "[step] the rest\n"


def _redirect() -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        print("kept by the class")
    print("back")


@pytest.mark.parametrize(
    ("work", "lines"),
    [
        (lambda: print("out", "and\nout again"), ["out and", "out again"]),
        (lambda: sys.stderr.writelines(["err\n", "without an end"]), ["err", "without an end"]),
        (_redirect, ["back"]),
        (lambda: InThread(partial(copy_context().run, print, "in a thread")).result(60), ["in a thread"]),
        (lambda: print("\r1 %\r2 %"), ["\r1 %\r2 %"]),
        (lambda: print("x" * 100_000), ["x" * 65536, "x" * (100_000 - 65536)]),
    ],
)
def test_lines_come_whole(work: Callable[[], None], lines: list[str]) -> None:
    output: list[str] = []
    with own_output(output.append):
        work()
    assert output == lines


class Away(LocalOutputStore):
    """A store that answers no more once it was cleared so often."""

    def __init__(self, clears: int, *, passing: bool) -> None:
        self.left, self.passing = clears, passing

    def clear(self, tmp_path: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise ObjectStoreError("s3://b/x: it is away", passing=self.passing)
        super().clear(tmp_path)

    def read(self, tmp_path: str) -> bytes | None:
        raise ObjectStoreError(f"{tmp_path}: it is away", passing=self.passing)


@pytest.mark.parametrize(
    ("clears", "passing", "failure"),
    [
        (0, True, PlatformUnavailable),
        (0, False, PermanentFailure),
        (1, True, PlatformUnavailable),
        (1, False, PlatformUnavailable),
    ],
)
def test_a_store_that_is_away_ends_a_launch_in_words(tmp_path: Path, clears: int, passing: bool, failure: Any) -> None:
    """If the component has ended well, the failure is not permanent, whatever is wrong with the store."""
    store = Away(clears, passing=passing)
    with pytest.raises(failure, match=r"component copies: .* it is away") as caught:
        launcher(copies(tmp_path), tmp_path, store=store).launch()
    assert type(caught.value) is failure
    assert (store.left, (tmp_path / "out").exists()) == (clears - 1, clears == 1)
