"""The report about TensorFlow programs that fail: what TensorFlow logs is read as it is."""

import re
import signal
from pathlib import Path

import pytest

from tests.support.cli import Cli, replica, tfjob

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]  # the sum of what they wait for at most

LIMIT = 300.0  # seconds for what takes some twenty on an idle machine

COLLECTIVE = """
import json, os, signal, time
import tensorflow as tf
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1.0)))
for number in range(1, 41):
    step()
    if number == 20 and index == 1 and not os.path.exists(KILLED):
        open(KILLED, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
print("trained", flush=True)
"""

SERVER = """
import json, os, time
config = json.loads(os.environ["TF_CONFIG"])
if config["task"]["type"] == "evaluator":
    time.sleep(300)
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
server = tf.distribute.Server(config["cluster"], job_name="worker", task_index=config["task"]["index"])
with tf.compat.v1.Session(server.target) as session:
    print(session.run(tf.constant(7)), flush=True)
time.sleep(300)
"""

TAKEN = """
import json, os, socket
import tensorflow as tf
config = json.loads(os.environ["TF_CONFIG"])
if config["task"]["index"] == 0:
    taken = socket.create_server(("", int(config["cluster"]["worker"][0].rpartition(":")[2])))
tf.distribute.MultiWorkerMirroredStrategy()
"""

ALONE = """
import tensorflow as tf
tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
"""


def _sections(shown: str) -> dict[str, str]:
    """Return the section of the summary about each job, by the job's name. The sections are in any order."""
    parts = re.split(r"^(?=TFJob (?:\S+) (?:FAILED|succeeded))", shown, flags=re.MULTILINE)
    return {part.split()[1]: part for part in parts[1:]}


def test_a_collective_whose_worker_was_killed_and_one_that_restarts_together(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    jobs = []
    for name, policy in (("alone", {}), ("together", {"restartScope": "Job"})):
        (tmp_path / f"{name}.py").write_text(COLLECTIVE.replace("KILLED", repr(f"{name}-killed")))
        worker = replica("python", f"{name}.py", replicas=2, restart="ExitCode", grace=2)
        jobs.append(tfjob(name, clean="", run_policy=policy, Worker=worker))
    shown = cli.run("run", cli.write(*jobs), timeout=LIMIT, code=1).stdout
    about = _sections(shown)
    alone, together = about["alone"], about["together"]
    assert alone.index("worker-1 failed with exit code 137 (killed).") < alone.index("worker-0 failed with exit code 1")
    assert "Collective ops is aborted by" in alone
    assert "/job:worker/replica:0/task:1" in alone
    assert "set spec.runPolicy.restartScope to Job" in alone
    assert together.startswith("TFJob together succeeded"), together


def test_what_tensorflow_says_about_clusters_and_ports_is_understood(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    for name, text in (("taken", TAKEN), ("single", ALONE)):
        (tmp_path / f"{name}.py").write_text(text)
    taken = tfjob("taken", clean="", Worker=replica("python", "taken.py", replicas=2, grace=1))
    single = tfjob("single", clean="", Worker=replica("python", "single.py"))
    shown = cli.run("run", cli.write(taken, single), timeout=LIMIT, code=1).stdout
    about = _sections(shown)
    assert "Failed to add port to server" in about["taken"], shown
    assert "Could not start gRPC server" in about["taken"]
    assert "a job of one replica has no TF_CONFIG" in about["single"], shown


def test_a_server_that_waits_for_an_evaluator_is_told_of_tensorflows_rule(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    server = replica("python", "server.py", grace=1)
    with cli.start("run", cli.write(tfjob("server", clean="", Worker=server, Evaluator=server))) as process:
        process.until("CreateSession still waiting for response from worker: /job:evaluator", within=LIMIT)
        process.signal(signal.SIGINT)
        assert process.wait(60) == 130, process.output
    assert "set spec.evaluatorInCluster to false" in process.output
    with cli.start("run", "server.py", "--evaluator") as process:
        process.until("[worker-0] 7", within=LIMIT)
        process.signal(signal.SIGINT)
        process.wait(60)
