"""Changes of code: a place each, described for people, and noticed by plays or by the tests that come to the place."""

import ast
import os
import subprocess
import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import psutil
import pytest

from hack.mutants import plays
from hack.mutants.changed import ROOT, Mutant, all_mutants, listed, place_of
from hack.mutants.edits import edits, mutate
from hack.mutants.in_place import Functions, has_own_function
from hack.mutants.processes import Died, Task, TookTooLong, in_processes
from hack.mutants.results import EQUIVALENT, Results, Tried, equivalents, left, source_of, table
from hack.mutants.unit_tests import Recording, Run, coming_to, mirror_of, seconds_for
from tests.support.eventually import eventually

MUTABLE = "def add(found: list[int], most: int = 3) -> bool:\n    'Say so.'\n    found.append(1)\n    return 2 < most"
VERDICT = "tfoperator/controller/plan/verdicts/verdict.py"
QUEUE = "tfoperator/workqueue/queue.py"


def number_of(path: str, change: str) -> int:
    """The number of a change that begins so."""
    source = (ROOT / path).read_text()
    return next(number for number in range(999) if mutate(source, number)[1].startswith(change))


def test_a_change_is_one_place_and_told_to_people() -> None:
    numbers = range(len(list(edits(ast.parse(MUTABLE)))))
    changes = {mutate(MUTABLE, number)[1].partition(", in ")[0] for number in numbers}
    assert changes == {
        "`3` becomes `4`", "`1` becomes `2`", "`2` becomes `3`",
        "`2 < most` becomes `2 >= most`", "`2 < most` becomes `2 <= most`",
        "`found.append(1)` is left out", "`return 2 < most` becomes `return None`",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "change", "noticed"),
    [
        (
            "verdicts/verdict",
            "`return 0 in workers.completed` becomes `return None`",
            "play 0: stuck: job-0: it should have",
        ),
        ("facts/proposal", "`3600.0` becomes `3601.0`", "recorded otherwise: random lives "),
    ],
)
def test_a_change_of_the_plan_is_noticed_by_a_rule_or_by_a_record(file: str, change: str, noticed: str) -> None:
    path = f"tfoperator/controller/plan/{file}.py"
    played = run_mutants("--play", path, str(number_of(path, change)))
    assert (played.returncode, played.stdout.splitlines()[-1].startswith(noticed)) == (1, True), played.stderr


IMPORTED = """
from functools import cache, wraps

FACTOR = 2

def shouting(function):
    @wraps(function)
    def inner(text):
        return function(text).upper()
    return inner

@shouting
def joined(text):
    return "".join([letter * 1 for letter in text])

@cache
def kept():
    return 1

class Name(str):
    def __len__(self):
        return super().__len__() + 1

    @property
    def size(self):
        return 1
"""


def test_an_imported_function_gets_the_changed_code_also_with_a_decorator_or_in_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hack.mutants.changed.ROOT", tmp_path)
    monkeypatch.setattr("hack.mutants.in_place.ROOT", tmp_path)
    file = tmp_path / "imported.py"
    file.write_text(IMPORTED)
    spec = spec_from_file_location("imported", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    joined, name = module.joined, module.Name("x")
    functions = Functions([file.name])
    by_line = {IMPORTED.splitlines()[mutant.lines[0] - 1].strip(): mutant for mutant in all_mutants([file.name])}
    own = {line for line, mutant in by_line.items() if has_own_function(mutant)}
    assert own == {
        "return function(text).upper()",
        "return inner",
        'return "".join([letter * 1 for letter in text])',
        "return 1",
    }
    for mutant in all_mutants([file.name]):
        if mutant.change.startswith("`1` becomes `2`") and has_own_function(mutant):
            functions.change(mutant)
    assert (joined("ab"), name.size) == ("AABB", 2)
    with pytest.raises(LookupError, match=r"joined\(\) is not imported$"):
        Functions(["other.py"]).change(by_line['return "".join([letter * 1 for letter in text])'])


def test_a_change_after_the_import_is_noticed_as_a_change_before_the_import() -> None:
    mutant = all_mutants([VERDICT])[number_of(VERDICT, "`return 0 in workers.completed` becomes `return None`")]
    [(_, noticed)] = in_processes([Task("", lambda: plays.imported_once(first=False)(mutant, [0]), 300.0)], 1)
    assert str(noticed).startswith("play 0: stuck: job-0: it should have")


def test_a_change_is_made_before_the_import_if_the_import_runs_its_function() -> None:
    of_verdict = [mutant for mutant in all_mutants([VERDICT]) if has_own_function(mutant)]
    inside, other = of_verdict[0], next(mutant for mutant in of_verdict if place_of(mutant) != place_of(of_verdict[0]))
    lines = tuple(f"{VERDICT}:{mutant.lines[0]}" for mutant in (inside, other))
    stage = plays.Stage(plays.Reach(source="", lines=lines, at_import=(0,), by_play=((), (1,))))
    assert (stage.needs_import(inside), stage.needs_import(other)) == (True, False)
    assert (stage.coming_to(inside), stage.coming_to(other)) == ([0, 1], [1])


def test_the_lines_of_plays_that_ran_in_several_processes_are_put_together_in_the_order_of_the_plays(
    tmp_path: Path,
) -> None:
    even = plays.Reach(source="", lines=("a", "b", "c"), at_import=(0,), by_play=((1,), (2,)))
    odd = plays.Reach(source="", lines=("a", "d"), at_import=(0,), by_play=((1,),))
    whole = plays.keep(tmp_path, [even, odd])
    assert [[whole.lines[at] for at in play] for play in whole.by_play] == [["b"], ["d"], ["c"]]
    assert [whole.lines[at] for at in whole.at_import] == ["a"]
    assert plays.kept(tmp_path) == whole
    (tmp_path / "plays.json").write_bytes(b"{")
    assert plays.kept(tmp_path) is None


def test_a_change_is_noticed_by_a_unit_test_of_its_room_and_the_result_is_kept(tmp_path: Path) -> None:
    chosen, room = tmp_path / "list", "workqueue/queue.py"
    number = number_of(QUEUE, "`return len(self._fifo)` becomes `return None`")
    chosen.write_text(f"{QUEUE} {number}\n")
    options = ["--list", str(chosen), "--results", str(tmp_path / "results.jsonl")]
    first, second = (run_mutants(room, *options) for _ in range(2))
    for done in (first, second):
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{room}: 1 of ")
        assert "| together | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 0.0 % |" in done.stdout
    assert f"({number}): tests/unit/workqueue/test_queue.py::" in first.stderr
    assert second.stderr == "", "it is not tried again"


def run_mutants(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process that has imported nothing of what is changed."""
    command = [sys.executable, "-m", "hack.mutants", *arguments]
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_the_tests_that_come_to_a_change_run_file_by_file_and_the_fast_ones_first() -> None:
    every = all_mutants([QUEUE])
    inside = next(mutant for mutant in every if place_of(mutant))
    at_import = Mutant(QUEUE, 0, range(1, 2))
    runs = (
        Run("tests/slow.py::a", 9.0, (0, 1)),
        Run("tests/slow.py::b", 0.1, (1,)),
        Run("tests/fast.py::c", 3.0, (1,)),
        Run("tests/fast.py::d", 2.0, (1,)),
        Run("tests/other.py::e", 0.1, (0,)),
    )
    recording = Recording("", ("another:1", place_of(inside)), runs)
    assert [run.name[-1] for run in coming_to(inside, recording)] == ["d", "c", "b", "a"]
    assert len(coming_to(at_import, recording)) == len(runs)
    assert coming_to(inside, Recording("", ("another:1",), runs)) == []
    assert (seconds_for(runs[1:2]), seconds_for(runs), seconds_for([*runs] * 9)) == (30.0, 142.0, 600.0)


def test_a_room_without_tests_is_named_with_the_table_that_needs_an_entry() -> None:
    assert mirror_of("workqueue") == ["tests/unit/workqueue"]
    assert mirror_of("workqueue/queue.py") == ["tests/unit/workqueue/test_queue.py"]
    assert mirror_of("local/apiserver/storage") == ["tests/unit/local/apiserver/storage", "tests/contract"]
    assert mirror_of("controller/plan/pod_ends/restart.py")[:2] == [
        "tests/unit/controller/plan/pod_ends/test_restart.py",
        "tests/unit/controller",
    ]
    with pytest.raises(
        FileNotFoundError, match=r"^nowhere has no tests in tests/unit/nowhere: name them in BESIDE of "
    ):
        mirror_of("nowhere")


def test_a_process_that_hangs_or_dies_is_one_that_has_noticed_and_leaves_nothing_behind(tmp_path: Path) -> None:
    child = tmp_path / "child"

    def hang() -> None:
        started = subprocess.Popen(["sleep", "600"])
        child.write_text(str(started.pid))
        started.wait()

    tasks = [
        Task("hangs", hang, 2.0),
        Task("dies", partial(os._exit, 1), 60.0),
        Task("raises", partial(int, "x"), 60.0),
        Task("answers", partial(int, "7"), 60.0),
    ]
    answers = dict(in_processes(tasks, 2))
    assert isinstance(answers["hangs"], TookTooLong)
    assert isinstance(answers["dies"], Died)
    assert str(answers["dies"]) == ""
    assert "invalid literal" in str(answers["raises"])
    assert answers["answers"] == 7
    eventually(lambda: not runs(int(child.read_text())), what="what a process has started is killed")


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_became_of_a_change_is_kept_as_it_comes_and_told_by_who_noticed_it(tmp_path: Path) -> None:
    path = tmp_path / "mutants.jsonl"
    every = all_mutants([VERDICT])
    ways = [("play 0: stuck", None), ("recorded otherwise: one", None), ("", "a test"), (None, "")]
    tried = [
        Tried(VERDICT, mutant.number, mutant.lines[0], mutant.change, source_of(VERDICT), True, played, tested)
        for mutant, (played, tested) in zip(every, ways, strict=False)
    ]
    for result in tried:
        Results(path).add(result)
    results = Results(path)
    assert [results.get(mutant) for mutant in listed("\n".join(map(str, tried)), every)] == tried
    assert results.get(every[4]) is None
    same = {(VERDICT, tried[3].change): "?"}
    rows = [table(tried, reasons).splitlines()[-1] for reasons in ({}, same)]
    assert rows == [f"| together | 4 | 0 | 1 | 1 | 1 | {end} |" for end in ("0 | 1 | 25.0 %", "1 | 0 | 0.0 %")]
    assert (left(tried, {}), left(tried, same)) == ([tried[3]], [])


def test_each_change_that_makes_no_difference_is_there_with_its_reason() -> None:
    reasons = equivalents(EQUIVALENT.read_text())
    by_file: dict[str, set[str]] = {}
    for path, change in reasons:
        by_file.setdefault(path, set()).add(change)
    for path, changes in by_file.items():
        lines = [f", in `{line.strip()}`" for line in (ROOT / path).read_text().splitlines()]
        ends = tuple({end for end in lines for change in changes if change.endswith(end)})
        there = (mutant for mutant in all_mutants([path]) if lines[mutant.lines[0] - 1] in ends)
        assert changes - {mutant.change for mutant in there} == set(), path
    assert all(reasons.values())
