"""`tfoperator run` as a user meets it, with scripts that take no time instead of TensorFlow."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.cli import Cli, replica, tfjob
from tests.support.eventually import eventually
from tfoperator.local.identity import identify

# `$$$$` is a shell's `$$`, its process id: in a container's command `$$` stands for one dollar sign.
SERVE = "trap 'echo asked to stop; exit 0' TERM; echo serving; while true; do sleep 0.1; done"


def python(code: str) -> tuple[str, ...]:
    return ("python", "-I", "-S", "-u", "-c", code)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    yield Cli(tmp_path)
    # After each test, all processes that were started for it must have ended.
    marks = {path.parent.parent for path in tmp_path.glob("**/processes/*.json")}
    assert not marks, f"processes are left: {marks}"


def pids_in(cli: Cli) -> list[int]:
    """The processes that containers have noted in files `pid-*`."""
    return [int(path.read_text()) for path in cli.folder.glob("pid-*") if path.read_text().strip()]


def test_a_job_that_succeeds(cli: Cli) -> None:
    worker = replica("sh", "-c", "echo hello from worker; cat $TFOPERATOR_NONE /dev/null", replicas=2)
    done = cli.run("run", cli.write(tfjob("quick", Worker=worker)), code=0)
    assert "[worker-0] hello from worker" in done.stdout
    assert "[quick] Succeeded:" in done.stdout
    assert "TFJob quick succeeded after" in done.stdout
    assert "\x1b" not in done.stdout
    run_dir = cli.folder / ".tfoperator" / "runs" / "latest"
    log = run_dir / "logs" / "default" / "quick-worker-0" / "tensorflow" / "0.log"
    assert log.read_text() == "hello from worker\n"
    final = yaml.safe_load((run_dir / "default.quick.yaml").read_text())
    assert final["status"]["conditions"][-1]["type"] == "Succeeded"
    assert "SuccessfulCreatePod" in (run_dir / "events.txt").read_text()
    assert run_dir.resolve().name in done.stdout


def test_a_program_can_read_the_result(cli: Cli) -> None:
    worker = replica("echo", "hello")
    done = cli.run("run", cli.write(tfjob("quick", Worker=worker)), "-o", "json", "--logs-dir", "kept")
    result = json.loads(done.stdout)
    assert (result["outcome"], result["exitCode"], done.returncode) == ("Succeeded", 0, 0)
    (only,) = result["jobs"][0]["replicas"]
    assert (only["name"], only["state"], only["exitCode"], only["restarts"]) == ("worker-0", "Succeeded", 0, 0)
    assert (cli.folder / only["logs"][0]).read_text() == "hello\n"
    assert "[worker-0] hello" in done.stderr
    assert json.loads((cli.folder / "kept" / "result.json").read_text()) == result


@pytest.mark.parametrize("network", ["PerReplica", "PerJob"])
def test_replicas_find_each_other_through_tf_config(cli: Cli, network: str) -> None:
    parse = "import json, os, socket, time\nconfig = json.loads(os.environ['TF_CONFIG'])\n"
    parse += "address = lambda kind: (lambda host: (host[0], int(host[1])))(config['cluster'][kind][0].split(':'))\n"
    server = "listener = socket.create_server(address('ps'))\nwhile True: listener.accept()[0].sendall(b'weights')"
    client = "while True:\n try: print(socket.create_connection(address('ps')).recv(20).decode()); break\n"
    client += " except OSError: time.sleep(0.05)"
    chief, ps = replica(*python(parse + client)), replica(*python(parse + server))
    job = json.loads(tfjob("pair", Chief=chief, PS=ps))
    job["spec"]["network"] = network
    done = cli.run("run", cli.write(json.dumps(job)), code=0)
    assert "[chief-0] weights" in done.stdout
    assert re.search(r"ps-0 +Stopped +0 +143", done.stdout)


def test_of_many_replicas_each_is_told_by_an_address_of_its_own(cli: Cli) -> None:
    look = "import json, os\nconfig = json.loads(os.environ['TF_CONFIG'])\n"
    look += "hosts = [host.split(':') for host in config['cluster']['worker']]\n"
    look += "print(len(hosts), {host for host, _ in hosts}, len({port for _, port in hosts}), config['task'])\n"
    look += "print('by', os.environ['_'])"
    workers = replica("sh", "-c", "exec sleep 1000", replicas=130)
    job = tfjob("many", spec={"network": "PerJob"}, Chief=replica(*python(look)), Worker=workers)
    done = cli.run("run", cli.write(job), code=0)
    assert "[chief-0] 130 {'127.0.0.1'} 130 {'type': 'chief', 'index': 0}" in done.stdout
    assert '[chief-0] by .many.default.svc:2222","many-worker-' in done.stdout


def test_other_objects_of_the_manifest_are_there_for_the_pods(cli: Cli) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"GREETING": "hi"}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "other"}}
    worker = replica("sh", "-c", "echo $GREETING from $(NAME)", envFrom=[{"configMapRef": {"name": "settings"}}])
    worker["template"]["spec"]["containers"][0]["env"] = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    ]
    file = cli.write(json.dumps(settings), json.dumps(deployment), tfjob("quick", Worker=worker))
    done = cli.run("run", file, "-n", "mine", code=0)
    assert "[worker-0] hi from quick-worker-0" in done.stdout
    assert "Deployment (apps/v1) is skipped" in done.stderr
    assert (cli.folder / ".tfoperator/runs/latest/mine.quick.yaml").exists()


@pytest.mark.journey
def test_a_worker_that_fails_ends_the_job_and_is_named_with_its_last_words(cli: Cli) -> None:
    failing = replica("sh", "-c", "for i in $(seq 30); do echo line $i; done; echo out of luck >&2; exit 1")
    job = tfjob("bad", Worker=failing, PS=replica("sh", "-c", SERVE))
    done = cli.run("run", cli.write(job), code=1)
    assert "TFJob bad FAILED after" in done.stdout
    assert "worker-0 failed with exit code 1." in done.stdout
    tail = done.stdout.partition("Its last log lines")[2]
    assert "| out of luck" in tail
    assert "| line 12" in tail
    assert "| line 11\n" not in tail
    assert "Next:" in tail


def test_who_is_stopped_by_the_failure_of_another_is_not_to_blame(cli: Cli) -> None:
    saves = "trap 'sleep 0.5; echo saved; exit 9' TERM; touch up; while true; do sleep 0.1; done"
    failing = replica("sh", "-c", "until [ -e up ]; do sleep 0.05; done; exit 3")
    job = tfjob("let-go", clean="", Chief=replica("sh", "-c", saves), Worker=failing)
    done = cli.run("run", cli.write(job), "-o", "json", code=1)
    assert "[chief-0] saved" in done.stderr
    assert "worker-0 failed with exit code 3." in done.stderr
    assert "chief-0 failed" not in done.stderr
    replicas = json.loads(done.stdout)["jobs"][0]["replicas"]
    assert {summary["name"]: summary["state"] for summary in replicas} == {"chief-0": "Stopped", "worker-0": "Failed"}


@pytest.mark.journey
@pytest.mark.parametrize("policy", ["ExitCode", "OnFailure"])
def test_a_worker_process_that_is_killed_comes_back(cli: Cli, policy: str) -> None:
    code = "if [ -e pid-1 ]; then echo resumed; exit 0; fi; echo $$$$ > pid-1; echo working; sleep 60"
    worker = replica("sh", "-c", code, restart=policy)
    with cli.start("run", cli.write(tfjob("again", Worker=worker))) as process:
        process.until("[worker-0] working")
        os.kill(pids_in(cli)[0], signal.SIGKILL)
        assert process.wait() == 0, process.output
        assert "[worker-0] resumed" in process.output


def test_a_job_that_takes_too_long_is_stopped(cli: Cli) -> None:
    worker = replica("sh", "-c", SERVE)
    # Long enough for the busiest machine to start the worker before.
    done = cli.run("run", cli.write(tfjob("slow", Worker=worker)), "--timeout", "15s", code=124)
    assert "[worker-0] asked to stop" in done.stdout
    assert "did not end within the time limit" in done.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_stops_its_pods_in_order(cli: Cli, number: signal.Signals, code: int) -> None:
    worker = replica("sh", "-c", f"echo $$$$ > pid-$$$$; {SERVE}", replicas=2, restart="Always")
    with cli.start("run", cli.write(tfjob("long", Worker=worker))) as process:
        process.until("[worker-0] serving")
        process.until("[worker-1] serving")
        process.signal(number)
        assert process.wait() == code, process.output
        assert "[worker-0] asked to stop" in process.output
        assert "[worker-1] asked to stop" in process.output
        assert "was interrupted" in process.output
    assert [identify(pid) for pid in pids_in(cli)] == [None, None]


def test_a_second_interrupt_does_not_wait(cli: Cli) -> None:
    ignore = "trap 'echo no' TERM; echo $$$$ > pid-1; echo serving; while true; do sleep 0.1; done"
    stubborn = replica("sh", "-c", ignore, grace=3600)
    with cli.start("run", cli.write(tfjob("long", Worker=stubborn))) as process:
        process.until("[worker-0] serving")
        process.signal(signal.SIGINT)
        process.until("[worker-0] no")
        process.signal(signal.SIGINT)
        assert process.wait() == 130
    assert identify(pids_in(cli)[0]) is None


def test_nothing_outlives_a_run_that_is_killed(cli: Cli) -> None:
    worker = replica("sh", "-c", "echo $$$$ > pid-1; echo serving; sleep 60")
    with cli.start("run", cli.write(tfjob("long", Worker=worker))) as process:
        process.until("[worker-0] serving")
        process.end(signal.SIGKILL)
    eventually(lambda: identify(pids_in(cli)[0]) is None)
    for record in cli.folder.glob("**/processes/*.json"):
        record.unlink()  # a crashed run can't clean its records up


def test_pods_that_the_job_leaves_behind_are_stopped_with_the_run(cli: Cli) -> None:
    chief = replica("sh", "-c", "until [ -e up ]; do sleep 0.05; done")
    ps = replica("sh", "-c", SERVE.replace("echo serving", "touch up"))
    done = cli.run("run", cli.write(tfjob("left", clean="None", Chief=chief, PS=ps)), code=0)
    assert "[ps-0] asked to stop" in done.stdout


def test_what_the_api_server_refuses_is_said(cli: Cli) -> None:
    bad = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name"}}
    done = cli.run("run", cli.write(json.dumps(bad), tfjob("quick", Worker=replica("true"))), code=2)
    assert "metadata.name" in done.stderr


def test_several_jobs_run_together_and_each_line_says_whose_it_is(cli: Cli) -> None:
    good, bad = tfjob("good", Worker=replica("echo", "fine")), tfjob("bad", Worker=replica("sh", "-c", "exit 4"))
    done = cli.run("run", cli.write(good), cli.write(bad, name="other.yaml"), "-o", "json", code=1)
    assert {job["name"]: job["condition"] for job in json.loads(done.stdout)["jobs"]} == {
        "good": "Succeeded",
        "bad": "Failed",
    }


def test_a_program_needs_no_manifest(cli: Cli) -> None:
    say = "import glob, json, os, sys, time\ntask = json.loads(os.environ['TF_CONFIG'])['task']\n"
    say += "print(task, sys.argv[1:], os.getcwd(), flush=True)\n"
    # A worker that has not begun when worker 0 ends would never begin.
    meet = "open(f'{sys.argv[1]}-{task}', 'w').close()\n"
    meet += "while len(glob.glob(f'{sys.argv[1]}-*')) < {'0': 3, '3': 1}[sys.argv[1]]: time.sleep(0.05)\n"
    (cli.folder / "train.py").write_text(say + meet + "sys.exit(int(sys.argv[1]))\n")
    done = cli.run("run", "train.py", "--workers", "2", "--ps", "1", "--", "0", "$(HOME)", "--x", code=0)
    for index in range(2):
        task = {"type": "worker", "index": index}
        assert f"[worker-{index}] {task} ['0', '$(HOME)', '--x'] {cli.folder}" in done.stdout
    failed = cli.run("run", "train.py", "--chief", "--ps", "1", "--", "3", code=1)
    assert re.search("(chief|ps)-0 failed with exit code 3\\.", failed.stdout)  # all run the program, as they do here


def test_processes_start_where_they_are_asked_to(cli: Cli) -> None:
    (cli.folder / "there").mkdir()
    cli.write(tfjob("where", Worker=replica("pwd")), name="there/job.yaml")
    here = cli.run("run", "there/job.yaml", code=0)
    assert f"[worker-0] {cli.folder}\n" in here.stdout
    assert f"to start them in the folder of the manifest, use --workdir {cli.folder}/there" in here.stderr
    there = cli.run("run", "there/job.yaml", "--workdir", "there", code=0)
    assert f"[worker-0] {cli.folder}/there\n" in there.stdout
    assert "--workdir" not in there.stderr
