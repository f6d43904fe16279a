"""The page's server, asked as browsers and attackers ask it."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tests.support.stage import Stage, moment, train
from tests.support.visitor import WITHIN, Visitor, World, until
from tfoperator.api.v1.parts.progress import Metric, TrainingProgress
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import ConnectionRefused
from tfoperator.kube.protocol.resources import PODS
from tfoperator.report.curves import Curves


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.server.stop()


PAGE = "/api/job?namespace=default&name=mnist"


def talking(world: World, text: str, *indexes: int) -> None:
    """Make a job whose pods have printed this."""
    job = world.stage.job("mnist")
    for index in indexes:
        world.stage.pod(job, index)
        world.stage.logs[f"mnist-worker-{index}"].write(text)


def test_strangers_get_the_files_and_no_data(world: World) -> None:
    stranger = Visitor(world.server)
    assert stranger.ask("/").status == 200
    assert stranger.ask("/static/main.js").headers["Content-Type"].startswith("text/javascript")
    for path in ("about", "jobs", "job?namespace=a&name=b", "yaml?namespace=a&name=b", "archive"):
        assert stranger.ask(f"/api/{path}").status == 401, path


def test_every_answer_has_the_headers_that_bind_a_browser(world: World) -> None:
    answers = [world.visitor.ask(path) for path in ("/", "/static/style.css", "/api/about", "/nothing", "/api/nothing")]
    assert answers[2].headers["Cache-Control"] == "no-store"
    answers += [Visitor(world.server).ask("/api/jobs"), world.visitor.ask("/", Host="evil.example")]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_frames_something_only_where_its_cluster_is_this_machine(world: World) -> None:
    assert "frame-src" not in world.visitor.ask("/").headers["Content-Security-Policy"]
    of_this_machine = World(local=True)
    policy = of_this_machine.visitor.ask("/").headers["Content-Security-Policy"]
    assert policy.endswith("; frame-src http://127.0.0.1:* http://localhost:*")
    board = {"url": "http://127.0.0.1:6006", "ready": True}
    for shown, framed in ((of_this_machine, True), (world, False)):
        shown.stage.edit(TFJOBS, "default", train(shown.stage)["metadata"]["name"], {"status": {"tensorBoard": board}})
        with shown.visitor.stream(PAGE) as lines:
            job = next(line["job"] for line in lines if (line.get("job") or {}).get("tensorBoard"))
            assert job["tensorBoard"]["framed"] is framed
    of_this_machine.server.stop()


def test_on_this_machine_curves_begin_before_the_first_page() -> None:
    world = World(local=True)
    board = cast(Any, world.server)._cluster.board
    job = train(world.stage)
    uid = job["metadata"]["uid"]
    eventually(lambda: board.history.metrics(uid), what="the first point")
    progress = {"step": 421, "metrics": [{"name": "loss", "value": "0.5"}]}
    world.stage.edit(TFJOBS, "default", "mnist", {"status": {"progress": progress}})
    eventually(lambda: [point.step for point in board.history.metrics(uid)["loss"]] == [420, 421], what="the second")
    world.server.stop()


def test_a_query_of_more_fields_than_anybody_needs_is_refused(world: World) -> None:
    assert world.visitor.ask("/api/about?" + "&".join(["a=1"] * 64)).status == 200
    refused = world.visitor.ask("/api/about?" + "&".join(["a=1"] * 65))
    assert (refused.status, b"64 fields" in refused.body) == (400, True)


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "//etc/passwd", "/static/", "/x%01"],
)
def test_nothing_but_the_pages_files_can_be_read(world: World, path: str) -> None:
    with socket.create_connection(("127.0.0.1", world.server.port), timeout=WITHIN) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{world.server.port}\r\n\r\n".encode())
        assert b" 404 " in connection.recv(4096).partition(b"\r\n")[0]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_nothing_can_be_changed(world: World, method: str) -> None:
    calls = len(world.stage.calls)
    assert world.visitor.ask("/api/jobs", method, Origin=world.server.url[:-1], Content_Length="0").status == 405
    assert len(world.stage.calls) == calls


def test_a_foreign_name_and_another_page_are_refused(world: World) -> None:
    host = f"evil.example:{world.server.port}"
    foreign = {"Host": host, "Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": "same-site"}
    assert [world.visitor.ask("/api/about", **{name: value}).status for name, value in foreign.items()] == [403] * 3
    assert world.visitor.ask("/api/about").status == 200


def test_a_link_works_once_for_whoever_comes_first(world: World) -> None:
    with pytest.raises(AssertionError):
        Visitor(world.server).sign_in(world.links[0])
    Visitor(world.server).sign_in(world.links[1])


@pytest.mark.parametrize(
    ("body", "status"),
    [*((body, 401) for body in (b"", b"[]", b"{}", b'{"token": 1}', b"\xff", b'{"token": "x"}')), (b"x" * 5000, 413)],
)
def test_a_broken_exchange_is_refused(world: World, body: bytes, status: int) -> None:
    assert world.visitor.ask("/api/session", "POST", body, Origin=world.server.url[:-1]).status == status


def test_pages_share_one_watch_per_kind_and_the_cluster_is_left_alone_until_one_asks(world: World) -> None:
    world.stage.pod(world.stage.job("mnist"), 0)
    calls = len(world.stage.calls)
    assert world.visitor.ask("/api/about").status == 200
    assert len(world.stage.calls) == calls
    with ExitStack() as open_pages:
        lists = [open_pages.enter_context(world.visitor.stream("/api/jobs")) for _ in range(3)]
        page = open_pages.enter_context(world.visitor.stream(PAGE))
        for stream in lists:
            assert until(stream, "jobs")[0]["name"] == "mnist"
        assert [replica["name"] for replica in until(page, "replicas")] == ["worker-0", "worker-1"]
        eventually(lambda: world.stage.count("watch", "pods") > 0, within=WITHIN)
        assert (world.stage.count("watch", "tfjobs"), world.stage.count("watch", "pods")) == (1, 1)


def test_the_list_follows_what_happens_and_names_a_kind_that_may_not_be_read(world: World) -> None:
    for verb in ("list", "watch"):
        world.stage.fail(verb, "events", api_error(403, "Forbidden", "no"), times=1000)
    with world.visitor.stream("/api/jobs") as stream:
        assert next(line["problems"] for line in stream if line.get("problems")) == {"events": "Forbidden"}
        world.stage.job("mnist")
        assert until(stream, "jobs")[0]["state"] == "Pending"
        condition = {"type": "Running", "status": "True", "message": "It runs."}
        world.stage.edit(TFJOBS, "default", "mnist", {"status": {"conditions": [condition]}})
        assert until(stream, "jobs")[0]["message"] == "It runs."
        world.stage.remove(TFJOBS, "default", "mnist")
        assert next(line["gone"] for line in stream if line.get("gone")) == ["default/mnist"]


def test_logs_come_with_the_job_and_go_on(world: World) -> None:
    talking(world, "one\ntwo\n", 0, 1)
    with world.visitor.stream(f"{PAGE}&logs=worker-0,worker-1&tail=1") as stream:
        first = {(batch := until(stream, "log"))["replica"]: batch["lines"] for _ in range(2)}
        assert first == {"worker-0": ["two"], "worker-1": ["two"]}
        world.stage.logs["mnist-worker-1"].write("three\n")
        batch = until(stream, "log")
        assert (batch["replica"], batch["lines"]) == ("worker-1", ["three"])


def test_yaml_is_without_what_only_machines_read_and_of_a_job_that_is_gone_it_is_said(world: World) -> None:
    world.stage.job("mnist")
    world.stage.edit(TFJOBS, "default", "mnist", {"metadata": {"managedFields": [{"manager": "kubectl"}]}})
    text = json.loads(world.visitor.ask("/api/yaml?namespace=default&name=mnist").body)["yaml"]
    assert "kind: TFJob" in text
    assert "managedFields" not in text
    assert world.visitor.ask("/api/yaml?namespace=default&name=other").status == 404
    with world.visitor.stream("/api/job?namespace=default&name=other") as stream:
        assert until(stream, "job") is None


def test_a_page_that_leaves_takes_its_readers_along_and_a_stop_ends_streams_that_are_open(world: World) -> None:
    talking(world, "hello\n", 0)
    with world.visitor.stream(f"{PAGE}&logs=worker-0") as stream:
        assert until(stream, "log")["lines"] == ["hello"]
    eventually(lambda: not world.server._readers._threads, within=WITHIN)
    with world.visitor.stream(f"{PAGE}&logs=worker-0") as stream:
        assert until(stream, "log")["lines"] == ["hello"]
        world.server.stop()
        assert all("problems" in line or line for line in stream)  # it ends
        assert world.stage.closed


def test_what_a_replica_used_comes_with_the_job(world: World) -> None:
    pod = world.stage.pod(world.stage.job("mnist"), 0)
    world.stage.use(pod, "250m", "64Mi", at=20)
    with world.visitor.stream(PAGE) as stream:
        used = next(line["usage"] for line in stream if line.get("usage"))
        assert used["worker-0"][0][1] == {"cpu": 0.25, "memory": 64 * 1024 * 1024}


def test_the_first_samples_come_also_where_the_clock_of_nodes_is_behind_that_of_the_api_server(world: World) -> None:
    pod = world.stage.pod(world.stage.job("mnist", created=moment(50)), 0, created=moment(51))
    world.stage.use(pod, "250m", "64Mi", at=20)
    with world.visitor.stream(PAGE) as stream:
        # The first may come before anybody has asked the metrics API.
        assert any("worker-0" in used for used in islice((line["usage"] for line in stream if "usage" in line), 2))


def test_a_job_that_is_made_anew_is_told_whole_though_parts_of_it_look_like_its_predecessor(world: World) -> None:
    first = world.stage.job("mnist", workers=1)
    with world.visitor.stream(PAGE) as stream:
        assert [row["state"] for row in until(stream, "replicas")] == ["No pod"]
        world.stage.remove(TFJOBS, "default", "mnist")
        world.stage.job("mnist", workers=1)
        next(line for line in stream if line.get("job") and line["job"]["uid"] != first["metadata"]["uid"])
        # A page forgets all of the earlier job. The rest of the new job follows before the next word on the whole.
        rest = next(line for line in stream if "replicas" in line or "synced" in line)
        assert [row["name"] for row in rest["replicas"]] == ["worker-0"]


def ended_run(stage: Stage, curves: dict[str, Curves] | None = None) -> Any:
    """A recorded run that has ended, whose API is this stage."""
    return SimpleNamespace(client=stage, curves=curves or {}, goes_on=False, reports={})


def test_a_pod_that_is_gone_leaves_its_life_behind(world: World) -> None:
    job = world.stage.job("mnist")
    world.stage.pod(job, 1)
    with world.visitor.stream(PAGE) as stream:
        # The list of pods may come after the list of jobs: until then there is "No pod".
        states = (line["replicas"][0]["state"] for line in stream if "replicas" in line)
        assert next(state for state in states if state != "No pod") == "Running"
        world.stage.remove(PODS, "default", "mnist-worker-1")
        gone = until(stream, "replicas")[0]
        assert (gone["name"], gone["state"]) == ("worker-1", "Gone")
        assert [span["state"] for span in gone["spans"]] == ["pending", "running"]
        assert gone["spans"][-1]["end"] is not None
    after = Stage()
    after.put(TFJOBS, job)
    world.server.show_run(ended_run(after))
    with world.visitor.stream(PAGE) as stream:
        assert until(stream, "replicas")[0] == gone, "also when the run has ended"


def test_a_run_that_has_ended_stays_on_the_page_and_says_so(world: World) -> None:
    job = train(world.stage)
    uid = job["metadata"]["uid"]
    with world.visitor.stream(PAGE) as lines:
        assert until(lines, "ended") is False
        assert until(lines, "job")["uid"] == uid
        world.server.hold()
        world.stage.remove(TFJOBS, "default", "mnist")
        with world.visitor.stream(PAGE) as others:
            assert until(others, "job")["uid"] == uid, "what is known stays"
        after = Stage()
        train(after)
        curves = Curves()
        curves.add(TrainingProgress(step=1, metrics=(Metric("loss", "0.5"),)), datetime.now(UTC))
        (kept,) = [obj["metadata"]["uid"] for obj in after.objects(TFJOBS, "default")]
        world.server.show_run(ended_run(after, {kept: curves}))
        list(lines)  # ends, so that the page asks again
    with world.visitor.stream(PAGE) as lines:
        assert until(lines, "ended") is True
        assert [point[2] for point in until(lines, "curves")["loss"]] == [1, 420]


def test_all_jobs_come_before_the_word_that_the_list_is_complete(world: World) -> None:
    """At `synced`, the page removes all jobs that the stream has not sent. An early `synced` would empty the list."""
    train(world.stage)
    for _ in range(2):  # the second stream finds a cache that is already complete
        with world.visitor.stream("/api/jobs") as stream:
            seen = list(takewhile(lambda line: not line.get("synced"), stream))
        assert any("jobs" in line for line in seen)


def test_a_log_is_read_as_soon_as_an_api_server_that_was_away_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    talking(world, "one\n", 0)
    monkeypatch.setattr("tfoperator.ui.jobs.logs.RETRY_SECONDS", 0.1)
    read, away = world.stage.pod_log, iter((True, True))

    def pod_log(*arguments: Any, **options: Any) -> Any:
        if next(away, False):
            raise ConnectionRefused("the server is away")
        return read(*arguments, **options)

    monkeypatch.setattr(world.stage, "pod_log", pod_log)
    with world.visitor.stream(f"{PAGE}&logs=worker-0") as stream:
        assert until(stream, "log")["problem"] == "the server is away"
        assert until(stream, "log")["lines"] == ["one"]


def test_jobs_are_shown_where_the_records_of_pipelines_belong_to_a_folder_that_others_can_change(
    tmp_path: Path,
) -> None:
    home = tmp_path / ".tfoperator" / "pipelines"
    home.mkdir(parents=True)
    (home / "metadata.db").touch()
    home.chmod(0o777)
    world = World(pipelines=home)
    try:
        answer = world.visitor.ask("/api/about")
        about = json.loads(answer.body)
        assert (answer.status, about["jobs"], about["pipelines"]) == (200, True, "")
        assert str(home) in about["pipelinesProblem"]
    finally:
        world.server.stop()
