"""Pipeline runs on the page's server: runs that really run, and records that strangers wrote."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hack.postgres import READER, USER, PostgresServer
from tests.support.threads import InThread
from tests.support.visitor import World, until, until_all
from tests.unit.pipeline.samples import ON_THE_WAY, diamond, fails, runner
from tfoperator.base.urls import shown_url
from tfoperator.launcher import PermanentFailure
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory
from tfoperator.pipeline import Home, MetadataStore, PipelineFailed
from tfoperator.pipeline.store.records import RunRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def shown(tmp_path: Path, *, home: str = "", **options: Any) -> Iterator[World]:
    made = World(pipelines=home or tmp_path / "home", **options)
    try:
        yield made
    finally:
        made.server.stop()


def states(steps: list[dict[str, Any]]) -> dict[str, str]:
    return {step["name"]: step["state"] for step in steps}


def about(world: World) -> dict[str, Any]:
    return dict(json.loads(world.visitor.ask("/api/about").body))


def row_of(stream: Iterator[dict[str, Any]], fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first row of a list of runs that fits."""
    return next(row for row in (until(stream, "runs")[0] for _ in range(1000)) if fits(row))


def hand_made(tmp_path: Path, run_id: str = "r1", **steps: tuple[str, ...]) -> RunRecord:
    """A run that only the store knows of."""
    run = RunRecord(run_id, "p", "succeeded", "/root", "f", NOW, ended=NOW, steps=steps)
    with Home(tmp_path / "home").store() as store:
        store.put_run(run)
    return run


def test_nothing_is_there_and_nothing_is_made_until_a_pipeline_has_run(tmp_path: Path) -> None:
    with shown(tmp_path) as world:
        assert about(world)["pipelines"] == ""
        assert world.visitor.ask("/api/runs").status == 404
        assert not (tmp_path / "home").exists()
        first = runner(tmp_path).run(diamond(tmp_path))
        assert about(world)["pipelines"] == str(tmp_path / "home")
        second = runner(tmp_path).run(diamond(tmp_path))
        with world.visitor.stream(f"/api/run?id={second.run_id}") as stream:
            steps = until(stream, "steps")
        assert set(states(steps).values()) == {"cached"}
        assert {step["usedFrom"]["run"] for step in steps} == {first.run_id}
        assert world.stage.calls == []  # who looks at pipelines watches no cluster


def test_the_list_follows_a_run_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    go = threading.Event()
    ON_THE_WAY["right"] = lambda *_: go.wait(60) and None
    with shown(tmp_path, cluster=False) as world, world.visitor.stream("/api/runs") as stream:
        assert (about(world)["jobs"], world.visitor.ask("/api/jobs").status) == (False, 404)
        assert next(stream) == {"synced": False, "problems": {}}
        assert next(line for line in stream if line.get("synced"))
        call = InThread(lambda: runner(tmp_path).run(diamond(tmp_path)))
        row = row_of(stream, lambda row: row["done"] == 2)
        assert (row["pipeline"], row["state"], row["steps"], row["message"]) == ("diamond", "running", 4, "right")
        go.set()
        result = call.result(60)
        row = row_of(stream, lambda row: row["state"] != "running")
        assert (row["key"], row["state"], row["done"]) == (result.run_id, "succeeded", 4)
        home = Home(tmp_path / "home")
        with home.store() as store:
            store.forget_run(result.run_id)
        assert until(stream, "gone") == [result.run_id]


@pytest.mark.postgresql
def test_records_in_postgresql_are_shown_alike_to_who_may_only_read(tmp_path: Path, postgres: PostgresServer) -> None:
    place = f"{postgres.database(tmp_path.name)}?folder={tmp_path}/logs"
    MetadataStore(place.partition("?")[0]).close()
    reader = place.replace(f"//{USER}@", f"//{READER}@")
    go = threading.Event()

    def talk(*_: Any) -> None:
        print("half-way")
        go.wait(60)

    ON_THE_WAY["left"] = talk
    with shown(tmp_path, cluster=False, home=reader) as world, world.visitor.stream("/api/runs") as listed:
        assert about(world)["pipelines"] == shown_url(reader.partition("?")[0]), "without the user"
        assert next(line for line in listed if line.get("synced"))
        call = InThread(lambda: runner(tmp_path, parallel=1, home=place).run(diamond(tmp_path)))
        row = row_of(listed, lambda row: row["message"] == "left")
        go.set()
        key = row["key"]
        assert row["state"] == "running"
        call.result(60)
        row = row_of(listed, lambda row: row["state"] != "running")
        assert (row["state"], row["done"]) == ("succeeded", 4)
        with world.visitor.stream(f"/api/run?id={key}&step=left") as stream:
            run, steps, log = until_all(stream, "run", "steps", "log")
        assert run["state"] == "succeeded"
        assert log == {"step": "left", "lines": ["half-way"], "afresh": False}
        left = next(step for step in steps if step["name"] == "left")
        assert (left["attempts"], left["platform"]) == (1, "In process")
        lineage = json.loads(world.visitor.ask(f"/api/artifact?id={left['outputs']['total'][0]['id']}").body)
        assert lineage["origin"]["executions"][0]["step"] == "left"


def test_a_run_shows_its_steps_as_they_go_on_and_their_logs(tmp_path: Path) -> None:
    go = threading.Event()

    def talk(_: Any, __: Any, exec_properties: Any) -> None:
        run = Path(exec_properties["tmp_path"]).parents[2]
        log = Home(run.parents[1]).logs.append_to(run.name, "left")
        log("half-way")
        go.wait(60)
        log("through")

    ON_THE_WAY["left"] = talk
    with shown(tmp_path, cluster=False) as world, world.visitor.stream("/api/runs") as listed:
        call = InThread(lambda: runner(tmp_path, parallel=1).run(diamond(tmp_path)))
        key = until(listed, "runs")[0]["key"]
        with world.visitor.stream(f"/api/run?id={key}&step=left") as stream:
            first, steps, log = until_all(stream, "run", "steps", "log")
            assert (first["state"], first["pipeline"]) == ("running", "diamond")
            assert [box["name"] for box in first["picture"]["boxes"]] == list(dict.fromkeys(states(steps)))
            assert log == {"step": "left", "lines": ["half-way"], "afresh": False}
            go.set()
            run, log = first, None  # in any order: the run may have ended before the log is read again
            while log is None or run["state"] == "running" or set(states(steps).values()) != {"succeeded"}:
                line = next(stream)
                run, steps, log = line.get("run", run), line.get("steps", steps), line.get("log", log)
            assert log["lines"] == ["through"]
        call.result(60)
        left = next(step for step in steps if step["name"] == "left")
        assert (left["attempts"], left["platform"], left["job"]) == (1, "In process", None)
        assert left["parameters"] == {"number": "10", "name": "left"}
        assert left["inputs"]["left"][0]["maker"] == {"run": key, "step": "begin"}
        (total,) = left["outputs"]["total"]
        assert (total["properties"], total["state"]) == ({"total": "11"}, "LIVE")
        lineage = json.loads(world.visitor.ask(f"/api/artifact?id={total['id']}").body)
        assert lineage["origin"]["executions"][0]["step"] == "left"
        assert lineage["origin"]["next"][0]["executions"][0]["step"] == "begin"
        assert lineage["use"]["executions"][0]["step"] == "end"


def test_a_failure_says_why_and_a_dead_runner_is_noticed(tmp_path: Path) -> None:
    ON_THE_WAY["left"] = fails(PermanentFailure("no data"))
    with pytest.raises(PipelineFailed):
        runner(tmp_path).run(diamond(tmp_path))
    home = Home(tmp_path / "home")
    with home.store() as store:
        (failed,) = store.runs()
        store.put_run(RunRecord("dead", "p", "running", "/root", "f", NOW, steps={"a": ()}))
    with shown(tmp_path) as world:
        with world.visitor.stream("/api/runs") as stream:
            rows = {row["key"]: row["state"] for row in until(stream, "runs")}
            assert rows == {"dead": "interrupted", failed.id: "failed"}
        with world.visitor.stream(f"/api/run?id={failed.id}") as stream:
            steps = {step["name"]: step for step in until(stream, "steps")}
        assert (steps["left"]["state"], "no data" in steps["left"]["message"]) == ("failed", True)
        assert steps["end"]["state"] == "not run"


def test_a_step_is_linked_to_its_tfjob_if_that_is_one_of_this_api_server(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    hand_made(tmp_path, train=(), other=())
    with shown(tmp_path) as world:
        job = world.stage.job("train-1a2b", namespace="vision")
        for step, uid in (("train", job["metadata"]["uid"]), ("other", "of-another-cluster")):
            with WorkDirectory(home.step_folder("r1", step)) as work:
                work.save(LaunchRecord(step, "f", 1, "1a2b", 2, "train-1a2b", uid, "created", kind="tfjob"))
        with world.visitor.stream("/api/run?id=r1") as stream:
            steps = {}
            while steps.get("train", {}).get("job") is None:
                steps = {step["name"]: step for step in until(stream, "steps")}
        assert steps["train"]["job"] == {"namespace": "vision", "name": "train-1a2b"}
        assert (steps["train"]["attempts"], steps["train"]["platform"]) == (2, "TFJob")
        assert steps["other"]["job"] is None


@pytest.mark.parametrize(
    "query", ["id=../../etc&step=passwd", "id=r1&step=../../secret", "id=r1&step=/etc/passwd", "id=&step=x"]
)
def test_no_name_of_a_client_becomes_a_path(tmp_path: Path, query: str) -> None:
    hand_made(tmp_path, a=())
    (tmp_path / "home" / "secret.log").write_text("secret\n")
    with shown(tmp_path) as world, world.visitor.stream(f"/api/run?{quote(query, safe='=&')}") as stream:
        lines = [next(stream) for _ in range(2)]
        assert "secret" not in json.dumps(lines)


def test_what_is_no_artifact_is_refused_and_strangers_get_nothing(tmp_path: Path) -> None:
    hand_made(tmp_path, a=())
    with shown(tmp_path) as world:
        for number in ("", "x", "-1", "1e9", "99999999999999999999", "1; DROP TABLE Artifact", "\u0663"):
            assert world.visitor.ask(f"/api/artifact?id={quote(number)}").status == 404
        world.visitor.headers = {}
        for path in ("/api/runs", "/api/run?id=r1", "/api/artifact?id=1"):
            assert world.visitor.ask(path).status == 401


def test_names_in_the_store_do_not_lead_out_of_the_home_either(tmp_path: Path) -> None:
    """A home may be a folder that others have written."""
    secret = tmp_path / "secret.log"
    secret.write_text("secret\n")
    out = "../../../../secret"
    hand_made(tmp_path, "evil", **{out: (), "..": (), "linked": ()})
    hand_made(tmp_path, "../runs", a=())
    home = Home(tmp_path / "home")
    home.logs.append_to("evil", "no step")("of nothing")
    home.logs.file("evil", "linked").symlink_to(secret)
    assert home.logs.file("evil", out).resolve() == secret.resolve()
    with shown(tmp_path) as world:
        for run, step in (("evil", out), ("evil", ".."), ("evil", "no step"), ("../runs", "a")):
            with world.visitor.stream(f"/api/run?id={quote(run)}&step={quote(step)}") as stream:
                assert [next(iter(next(stream))) for _ in range(3)] == ["run", "steps", "synced"]
        with world.visitor.stream("/api/run?id=evil&step=linked") as stream:
            assert "can't be read" in until(stream, "log")["problem"]


def test_large_values_are_cut(tmp_path: Path) -> None:
    steps = {f"s{n:04}": () for n in range(1000)}
    large = "x" * 100_000
    run = RunRecord("big", "p", "failed", "/r", "f", NOW, NOW, large, steps=steps, parameters={"p": large})
    with Home(tmp_path / "home").store() as store:
        store.put_run(run)
    with shown(tmp_path) as world, world.visitor.stream("/api/run?id=big") as stream:
        detail = until(stream, "run")
        assert len(json.dumps(detail)) < 20_000
        assert detail["picture"] is None
        assert len(until(stream, "steps")) == 1000


def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "metadata.db").write_bytes(b"this is no database, and long enough for a header of one" * 10)
    with shown(tmp_path) as world:
        with world.visitor.stream("/api/runs") as stream:
            problems = next(line["problems"] for line in stream if line.get("problems"))
        assert "metadata.db" in problems["pipelines"]
        with world.visitor.stream("/api/run?id=x") as stream:
            assert "metadata.db" in until(stream, "problems")["pipelines"]
        answer = world.visitor.ask("/api/artifact?id=1")
        assert answer.status == 502
