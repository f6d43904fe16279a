"""The four steps of the digits example on a node, by a runner's pod that is killed and followed by another."""

import json
import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from hack.cluster import Cluster
from tests.support.eventually import eventually_holds
from tests.support.in_cluster import LIMIT, PIPELINE_IMAGE, ROOT, InCluster, Json, pipeline_image
from tests.support.node_pipeline import NodePipeline

EXAMPLE = ROOT / "examples/pipeline"

PIPELINE = """
import digits
from tfoperator.launcher import KubernetesPodPlatformConfig, Pod, TFJobPlatformConfig

digits.PROGRAM = "/pipeline/noted.py"
PACKAGES = {"hostPath": {"path": "HOST_PACKAGES"}}
PARTS = Pod().claim("pipeline", "/data/root", sub_path="root").claim("pipeline", "/data/notes", sub_path="notes")
POD = PARTS.volume("packages", "/packages", PACKAGES, read_only=True).spec()
POD["terminationGracePeriodSeconds"] = 1  # the steps don't handle SIGTERM, which process 1 of a container then ignores
PODS = [KubernetesPodPlatformConfig(POD)]
JOB = [TFJobPlatformConfig({"Worker": 2}, pod_spec=POD)]
PLATFORMS = {"cluster": {"Data": PODS, "Train.single": PODS, "Train.distributed": JOB, "Evaluate": PODS}}

def create_pipeline(image: str, alpha: float = 0.001):
    return digits.create_pipeline(root="/data/root", alpha=alpha, image=image)
"""

NOTED = """
import json, os, runpy, sys, time

_, _, _, component, _, run = sys.argv[3].split("/")
who = f"{component}-{json.loads(os.environ.get('TF_CONFIG', '{}')).get('task', {}).get('index', 0)}"

def note(word):
    with open("/data/notes/journal", "a") as journal:
        journal.write(f"{word} {who} {run}\\n")

note("begins")
while os.path.exists(f"/data/notes/held/{component}"):
    time.sleep(0.05)
runpy.run_path("/pipeline/steps.py", run_name="__main__")
note("ends")
"""
ALL = ("Data-0", "Train.single-0", "Train.distributed-0", "Train.distributed-1", "Evaluate-0")
CHANGED = ("Train.distributed-0", "Train.distributed-1", "Evaluate-0")


@pytest.fixture(scope="module")
def image(node_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The pipeline's image by its digest: what runs under a name that may change its meaning is never used again."""
    files: dict[str, Path | bytes] = {name: EXAMPLE / name for name in ("digits.py", "steps.py")}
    files["pipeline.py"] = PIPELINE.replace("HOST_PACKAGES", sysconfig.get_path("purelib")).encode()
    files["noted.py"] = NOTED.encode()
    node_cluster.load_image(pipeline_image(tmp_path_factory.mktemp("image") / "pipeline.tar", files))
    return node_cluster.by_digest(PIPELINE_IMAGE)


@pytest.fixture
def pipeline(namespace: InCluster, image: str, tmp_path: Path) -> NodePipeline:
    return NodePipeline(namespace, tmp_path, image)


def test_a_killed_runner_is_followed_by_one_that_goes_on_and_no_step_runs_twice(
    namespace: InCluster, pipeline: NodePipeline, image: str
) -> None:
    pipeline.hold("Train.single", "Train.distributed")
    given = f"--param=image={image}"
    run = pipeline.start("first", given)
    pipeline.wait_begun(run, *ALL[:4])
    [first] = pipeline.runners(run)
    shown = shown_in(namespace, first["metadata"]["name"])
    assert f"owner: {first['metadata']['name']}, process 1, whose lease ends at" in shown
    assert re.search(r"Train\.single: running, begun .* ago, after Data\n +as pod \S*train-single-", shown), shown
    assert re.search(r"Train\.distributed: running, .*\n +as TFJob \S*train-distributed-", shown), shown
    pipeline.kill_runner(run)
    going_on = [f"{step}: continuing with" for step in ("Train.single", "Train.distributed")]
    second = pipeline.wait_successor(run, first, *going_on)
    assert re.search(rf"owner: {second}, .*; this is owner number 2 of this run\n", shown_in(namespace, second))
    pipeline.let_go()
    pipeline.wait_complete("first")

    assert pipeline.notes("begins", run) == pipeline.notes("ends", run) == Counter(ALL)
    killed, _ = pipeline.runners(run)
    [status] = killed["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 137
    only_runners_are_left(namespace, 2)
    assert states(pipeline, run) == dict.fromkeys(STEPS, "succeeded")

    report = lineage(namespace, pipeline, run)
    made_by = {artifact["artifact"]["type"]: artifact["executions"] for artifact in report["artifacts"]}
    assert [example["parameters"] for example in made_by["Examples"]] == [{"seed": 1}]
    models = [artifact for artifact in report["artifacts"] if artifact["artifact"]["type"] == "Model"]
    assert [model["artifact"]["properties"] for model in models] == [
        {"replicas": 1, "alpha": 0.0001},
        {"replicas": 2, "alpha": 0.001},
    ]
    assert {execution["run"] for artifact in report["artifacts"] for execution in artifact["executions"]} == {run}
    accuracies = json.loads((pipeline.volume / f"root/Evaluate/report/{run}").read_text())
    assert min(accuracies.values()) > 0.85, accuracies
    assert report["artifact"]["properties"] == accuracies

    again = pipeline.start("second", given)
    pipeline.wait_complete("second")
    assert states(pipeline, again) == dict.fromkeys(STEPS, "cached")
    assert pipeline.notes("begins", again) == Counter()

    other = pipeline.start("third", given, "--param=alpha=0.01")
    pipeline.wait_complete("third")
    assert states(pipeline, other) == {
        "Data": "cached",
        "Train.single": "cached",
        "Train.distributed": "succeeded",
        "Evaluate": "succeeded",
    }
    assert pipeline.notes("begins", other) == pipeline.notes("ends", other) == Counter(CHANGED)
    of = {}
    for artifact in lineage(namespace, pipeline, other)["artifacts"]:
        of[artifact["artifact"]["uri"]] = {execution["run"] for execution in artifact["executions"]}
    assert of[f"/data/root/Train.distributed/model/{other}"] == {other}
    assert run in of[f"/data/root/Train.single/model/{run}"]
    only_runners_are_left(namespace, 4)


def test_a_runner_whose_pod_is_deleted_stops_what_runs_and_the_next_goes_on(
    namespace: InCluster, pipeline: NodePipeline, image: str
) -> None:
    pipeline.hold("Data")
    run = pipeline.start("moved", f"--param=image={image}")
    pipeline.wait_begun(run, "Data-0")
    [first] = pipeline.runners(run)
    namespace.kubectl("delete", "pod", first["metadata"]["name"], "--wait=false")
    pipeline.wait_successor(run, first, "Data: running")
    assert pipeline.notes("ends", run) == Counter()
    pipeline.let_go()
    pipeline.wait_complete("moved")
    assert pipeline.notes("begins", run) == Counter([*ALL, "Data-0"])
    assert pipeline.notes("ends", run) == Counter(ALL)
    assert states(pipeline, run) == dict.fromkeys(STEPS, "succeeded")
    only_runners_are_left(namespace, 1)


STEPS = ("Data", "Train.single", "Train.distributed", "Evaluate")


def states(pipeline: NodePipeline, run: str) -> dict[str, str]:
    return {step["name"]: step["state"] for step in pipeline.show(run)["steps"]}


def shown_in(namespace: InCluster, pod: str) -> str:
    """Return the records as they look in a runner's pod."""
    return namespace.kubectl("exec", pod, "--", "tfoperator", "pipeline", "show", "latest", "--home=/data/records")


def only_runners_are_left(namespace: InCluster, runners: int) -> None:
    """Check that the steps' pods and TFJobs are gone; the pods of runners are kept by their Jobs."""

    def left() -> None:
        pods = [pod["metadata"]["name"] for pod in namespace.list("pods")]
        assert (len(pods), namespace.list("tfjobs")) == (runners, []), pods

    eventually_holds(left, within=LIMIT, every=0.5, what="what the steps had is gone")


def lineage(namespace: InCluster, pipeline: NodePipeline, run: str) -> Json:
    """Return the lineage of a run's report."""
    uri, home = f"/data/root/Evaluate/report/{run}", f"--home={pipeline.home}"
    return dict(json.loads(namespace.cli.run("pipeline", "lineage", uri, home, "-o", "json", code=0).stdout))
