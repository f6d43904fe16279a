import pytest

from tests.support.eventually import eventually
from tests.support.jobs import soon
from tests.support.served import ServedWorld
from tests.support.threads import InThread
from tfoperator.kube import PODS


def pods_with_logs(world: ServedWorld, *replicas: str, job: str) -> None:
    """Pod names, and so logs, are one world's: tests of one server have jobs of different names."""
    for replica in replicas:
        world.logs.begin(world.pod(replica, job), f"{replica} says hello\n")


def test_by_default_it_is_the_log_of_the_pod_that_leads_and_else_of_all_that_have_started(world: ServedWorld) -> None:
    world.submit("lead", Worker=3)
    pods_with_logs(world, "worker-0", "worker-1", job="lead")
    world.pod("worker-2", "lead", phase="Pending", waiting="ImagePullBackOff")
    assert world.sdk.get_job_logs("lead") == {"lead-worker-0": "worker-0 says hello\n"}
    assert world.sdk.get_job_logs("lead", replica_index=1) == {"lead-worker-1": "worker-1 says hello\n"}
    assert list(world.sdk.get_job_logs("lead", is_master=False)) == ["lead-worker-0", "lead-worker-1"]


def test_the_end_and_the_run_before(world: ServedWorld) -> None:
    world.submit("again")
    name = world.pod("worker-0", "again", restarts=1)
    world.logs.begin(name, "first\n")
    world.logs.begin(name, "1\n2\n3\n")
    assert world.sdk.get_job_logs("again", tail_lines=2) == {name: "2\n3\n"}
    assert world.sdk.get_job_logs("again", previous=True) == {name: "first\n"}
    with pytest.raises(ValueError, match="can't be followed"):
        world.sdk.get_job_logs("again", previous=True, follow=True)


def test_following_goes_on_until_the_job_has_ended(world: ServedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.submit("follow")
    pods_with_logs(world, "worker-0", job="follow")

    def finish() -> None:
        world.logs.write("follow-worker-0", "no end of line")
        world.logs.end("follow-worker-0")
        world.pod_status("follow-worker-0", "Succeeded")
        world.becomes("Succeeded", "follow")

    with soon(lambda: world.logs.write("follow-worker-0", "step 1\nst"), finish):
        texts = world.sdk.get_job_logs("follow", follow=True, is_master=False)
    assert texts == {"follow-worker-0": "worker-0 says hello\nstep 1\nstno end of line\n"}
    assert capsys.readouterr().out.splitlines()[0] == "[follow-worker-0] worker-0 says hello"


def test_following_waits_for_the_start_and_survives_restarts_in_place_and_anew(world: ServedWorld) -> None:
    world.submit("phoenix")
    waits: list[str] = []

    def starts() -> None:
        world.pod("worker-0", "phoenix", phase="Pending", waiting="ImagePullBackOff")

    def runs(restarts: int = 0) -> None:
        world.logs.begin("phoenix-worker-0", f"run {restarts}\n")
        world.pod_status("phoenix-worker-0", restarts=restarts)

    def is_made_anew() -> None:
        world.logs.end("phoenix-worker-0")
        world.client.delete(PODS, world.namespace, "phoenix-worker-0", grace_period_seconds=0)
        world.logs.begin("phoenix-worker-0", "run 2\n")
        world.pod("worker-0", "phoenix")

    def ends() -> None:
        world.logs.end("phoenix-worker-0")
        world.pod_status("phoenix-worker-0", "Succeeded")

    with soon(starts, runs, lambda: runs(1), is_made_anew, ends, after=0.3):
        lines = [line.text for line in world.sdk.stream_job_logs("phoenix", on_wait=waits.append)]
    assert lines == ["run 0", "run 1", "run 2"]
    assert waits[0] == "waiting for pods"
    pulls = [wait.startswith("waiting for worker-0 to start (ImagePullBackOff: its image can't be") for wait in waits]
    assert pulls.index(True) < waits.index("")


def test_a_parameter_server_does_not_keep_the_stream_open(world: ServedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfoperator.sdk.logs.log_stream._GRACE", 0.3)
    world.submit("leftover", PS=1, Worker=1)
    pods_with_logs(world, "ps-0", job="leftover")
    with soon(lambda: world.becomes("Succeeded", "leftover")):
        lines = list(world.sdk.stream_job_logs("leftover", is_master=False))
    assert [line.replica for line in lines] == ["ps-0"]


def test_a_job_that_is_deleted_ends_the_stream(world: ServedWorld) -> None:
    world.submit("deleted")
    with soon(lambda: world.sdk.delete_job("deleted")):
        assert list(world.sdk.stream_job_logs("deleted")) == []


def test_a_log_larger_than_what_is_read_ahead_arrives_whole(world: ServedWorld) -> None:
    world.submit("large")
    name = world.pod("worker-0", "large", phase="Succeeded")
    expected = [f"line {number}" for number in range(200_000)]
    world.logs.begin(name, "\n".join([*expected, ""]))
    world.logs.end(name)
    world.becomes("Succeeded", "large")
    assert [line.text for line in world.sdk.stream_job_logs("large")] == expected


def test_close_ends_the_iteration_from_another_thread(world: ServedWorld) -> None:
    world.submit("closed")
    pods_with_logs(world, "worker-0", job="closed")
    seen: list[str] = []
    stream = world.sdk.stream_job_logs("closed")
    reading = InThread(lambda: seen.extend(line.text for line in stream))
    with stream:
        eventually(lambda: seen or stream._begun, what="it reads")
    reading.result()
