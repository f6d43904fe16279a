import json
from pathlib import Path

import pytest

from hack.bench.__main__ import main
from hack.bench.contestants import CONTESTANTS
from hack.bench.loads import LOADS
from hack.bench.report import FIGURES, TARGETS, growth, medians, refused, table, targets, to_json
from hack.bench.run import EXEMPT, Result
from tests.hack.bench.outcomes import result


def bad(contestant: str, load: str = "medium", repetition: int = 0, **figures: float) -> Result:
    bad_result = result(contestant, load, repetition, **figures)
    bad_result.complaints.append("pod x: missing")
    return bad_result


def test_a_figure_is_the_median_of_the_repetitions_and_one_refused_run_takes_all_of_its_contestant_and_load() -> None:
    figures = medians([result("ours", repetition=n, cpu_ms=value) for n, value in enumerate((9.0, 4.0, 5.0))])
    assert figures == {("medium", "ours", "cpu_ms"): 5.0}
    results = [
        result("ours", cpu_ms=4.0),
        bad("ours", repetition=1, cpu_ms=1.25),
        result("ours", "finish", cpu_ms=6.0),
        result("peer-tuned", cpu_ms=14.0),
    ]
    assert medians(results) == {("finish", "ours", "cpu_ms"): 6.0, ("medium", "peer-tuned", "cpu_ms"): 14.0}
    assert refused(results) == [results[1]]
    shown = table([results[1], results[3]])
    assert "1.25" not in shown
    assert "| CPU per job, ms | 14.0 | refused |" in shown


def test_the_table_compares_with_the_tuned_peer_and_with_the_floor() -> None:
    shown = table(
        [
            result("floor", running_s=10.0),
            result("ours", running_s=12.0, cpu_ms=5.0),
            result("peer-tuned", running_s=16.0, cpu_ms=15.0),
        ]
    )
    assert "| all Running, s | 16.0 (1.60× floor) | 12.0 (0.75× peer, 1.20× floor) | 10.0 |" in shown
    assert "| CPU per job, ms | 15.0 | 5.00 (0.33× peer) |  |" in shown


def test_the_table_tells_what_the_calls_of_a_job_are(tmp_path: Path) -> None:
    ours, peer = result("ours", calls=8.0), result("peer-tuned", calls=11.0)
    ours.calls = {"create pods": 3 * ours.jobs, "list pods": 1}
    peer.calls = {"create pods": 3 * peer.jobs, "get pods": 2 * peer.jobs}
    shown = table([ours, peer])
    assert "| calls per job: create pods | 3.00 | 3.00 |" in shown
    assert "| calls per job: get pods | 2.00 |  |" in shown
    assert "list pods" not in shown
    peer.complaints.append("pod x: missing")
    assert "| calls per job: create pods |  | 3.00 |" in table([ours, peer])


def test_earlier_runs_become_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, run in zip(files, (result("peer-tuned", cpu_ms=10.0), result("ours", cpu_ms=4.0)), strict=True):
        path.write_text(json.dumps(to_json([run], {"cores": 2})))
    out = tmp_path / "out"
    assert main(["--report", *map(str, files), "--out", str(out)]) == 0
    assert "| CPU per job, ms | 10.0 | 4.00 (0.40× peer) |" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"bench.json", "bench.md", "bench.png"}
    assert main(["--report", str(out / "bench.json"), "--out", str(out), "--no-plot"]) == 0
    assert "0.40× peer" in capsys.readouterr().out
    files[0].write_text("{")
    assert main(["--report", str(files[0]), "--out", str(out)]) == 1
    assert f"error: {files[0]}" in capsys.readouterr().err


def test_targets_are_judged_where_both_figures_are_there_and_growth_is_ours_alone() -> None:
    results = [result("peer-tuned", cpu_ms=15.0), result("ours", cpu_ms=6.0), result("ours", "finish", calls=11.0)]
    judged = {(target.load, target.figure): ratio for target, ratio in targets(medians(results)) if ratio is not None}
    assert judged == {("medium", "cpu_ms"): 0.4}
    assert "| medium: CPU per job, times Go operator, tuned | 0.4 | 0.40 | reached |" in table(results)
    results = [result("ours", "small", cpu_ms=4.0), result("ours", "large", cpu_ms=5.0)]
    assert growth(medians(results)) == 1.25
    assert growth(medians(results[:1])) is None
    assert "| CPU per job, large over small | 1.2 | 1.25 | missed |" in table(results)


def test_one_service_per_job_is_compared_with_the_floor_of_its_own_network() -> None:
    shown = table(
        [
            result("floor", "fives", running_s=10.0),
            result("floor-per-job", "fives", running_s=8.0),
            result("ours-per-job", "fives", running_s=8.8),
            result("peer-tuned", "fives", running_s=11.0),
        ]
    )
    assert "| all Running, s | 11.0 (1.10× floor) | 10.0 | 8.80 (0.80× peer, 1.10× floor) | 8.00 |" in shown
    assert "all Running of tfoperator, PerJob, times floor, PerJob | 1.25 | 1.10 | reached |" in shown
    assert "all Running of tfoperator, PerJob, times Go operator, tuned | 0.8 | 0.80 | reached |" in shown


def test_exempt_runs_are_a_section_of_their_own() -> None:
    shown = table([result("floor", "fives-exempt", running_s=10.0), result("ours", "fives-exempt", running_s=15.0)])
    assert "**fives-exempt**" in shown
    assert "| fives-exempt: all Running, times floor: no controller | 1.25 | 1.50 | missed |" in shown


def test_a_target_names_a_load_and_a_figure_that_there_are() -> None:
    for target in TARGETS:
        assert target.load.removesuffix(EXEMPT) in LOADS
        assert target.figure in FIGURES
        assert {target.of, target.against} <= set(CONTESTANTS)
