"""docs/reference names what differs between the first design documents and the code: the code is asked about each row.

A check returns the words of its row that the code has, and fails where the code does something else than the row.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from tests.support.plan_options import plan_options
from tests.unit.controller.builders import TEMPLATE, ReadablePlan, after, make_job, make_pod, planned, started, waiting
from tests.unit.controller.builders import pods_by_letter as pods
from tests.unit.pipeline.compiling.plans import graph as launch_graph
from tests.unit.pipeline.compiling.plans import plan as launch_plan
from tfoperator import launcher, pipeline
from tfoperator.api.conversion.replica_names import v1_name
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.choices import RestartPolicy
from tfoperator.api.v1.condition_types import ConditionType as C
from tfoperator.controller import PLAIN_NAMES, UNIQUE_NAMES, ControllerInformers, PlanOptions
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.observe.handlers import JobHandler
from tfoperator.controller.plan.pod_ends.restart import Ending, is_permanent
from tfoperator.informers import InformerGroup
from tfoperator.launcher.container.launcher import ContainerComponentLauncher
from tfoperator.launcher.core.output_document import MalformedOutput, parse_output
from tfoperator.operator import Options
from tfoperator.pipeline.compiling.airflow import airflow_file
from tfoperator.pipeline.compiling.argo import FINAL_EXIT_CODES, argo_workflow
from tfoperator.reconciler.live import Looker

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "docs/reference/states.md", ROOT / "docs/reference/first-design-documents.md")
TABLE = re.compile(r"^\|.*\bdocuments\b.*\|\n\|[-|]+\n((?:\|.*\n)+)", re.M)
TABLES = [rows for page in PAGES for rows in TABLE.findall(page.read_text())]
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in "".join(TABLES).splitlines()]

QUIET_SECONDS = Options().reconcile_max_period
Check = Callable[[], Iterable[object]]
ALONE, TWO = {"Worker": 1}, {"Worker": 2}
VERSIONS = crd(all_versions=True)["spec"]["versions"]
CONTAINER = launcher.ExecutorContainerSpec("i:1")


def of(letters: str, now: float = 0, **spec: Any) -> ReadablePlan:
    """Return the next plan of a job with two workers, whose pods are described by letters, and a parameter server."""
    return planned(started(make_job({"Worker": 2, "PS": 1}, **spec)), *pods(letters, PS="R"), now=after(now))


def body(replicas: Mapping[str, Any], options: PlanOptions | None = None, **spec: Any) -> dict[str, Any]:
    """The manifest of a job's first pod."""
    return planned(make_job(replicas, **spec), services=(), options=options or plan_options()).creations("pods")[0].body


def tf_config(replicas: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """TF_CONFIG of a job's first pod; empty without."""
    [container] = body(replicas, **spec)["spec"]["containers"]
    return dict(
        json.loads(
            {variable["name"]: variable["value"] for variable in container.get("env", ())}.get("TF_CONFIG", "{}")
        )
    )


def fields(part: str, *wanted: str) -> list[str]:
    """Return these fields, with "no" before the fields that the CRD does not have in the spec or the status."""
    has = VERSIONS[0]["schema"]["openAPIV3Schema"]["properties"][part]["properties"]
    return [name if name in has else f"no {name}" for name in wanted]


def unknown() -> Iterable[object]:
    ran = planned(started(make_job(ALONE)), *pods("R")).status
    plan = planned(make_job(ALONE, status=ran), *pods("R"), problems=("spec: it",))
    assert (plan.status.phase, plan.changes_objects) == ("Unknown", False)
    yield from (condition.type for condition in plan.status.conditions if condition.status == "Unknown")


def permanent() -> Iterable[object]:
    policies = {policy for policy in RestartPolicy if is_permanent(Ending(1, "", infrastructure=False), policy)}
    assert policies == {RestartPolicy.EXIT_CODE, RestartPolicy.NEVER}
    yield f"with `{RestartPolicy.EXIT_CODE}`"


def no_launcher() -> Iterable[object]:
    with pytest.raises(launcher.NoLauncherError) as caught:
        launcher.LocalComponentRunner([]).run([launcher.Component("step", CONTAINER)])
    yield "an error before anything runs" if caught else "?"


def refused() -> Iterable[object]:
    for name in launcher.DockerPlatformConfig.OURS:
        with pytest.raises(launcher.PlatformConfigError):
            launcher.DockerPlatformConfig(**{name: "x"})
    yield from {"image", "command", "name"} & launcher.DockerPlatformConfig.OURS


def outputs() -> Iterable[object]:
    for wrong in ({"known": 1}, {"other": {"uri": "u"}}):
        with pytest.raises(MalformedOutput):
            parse_output(json.dumps({"outputs": wrong}).encode(), frozenset({"known"}))
    yield from (f"`{name}`" for name in launcher.Artifact.__struct_fields__)


def words(expected: str | list[str], *facts: object) -> Check:
    """Return a check that a row has these words, and that they are true."""
    texts = [expected] if isinstance(expected, str) else expected
    return lambda: texts if all(facts) else [f"not: {word}" for word in texts]


def first_name(naming: Any) -> str:
    return str(body(ALONE, plan_options(naming=naming))["metadata"]["name"])


IMAGE_WAITS = planned(started(make_job(ALONE)), make_pod("Worker-0", "Pending", containers=(waiting("ErrImagePull"),)))
WITH_CHIEF = started(make_job({"Worker": 1, "Chief": 1}))
ON_EXIT_CODE = started(make_job({"Worker": {"replicas": 2, "restartPolicy": "ExitCode"}}))
ONE_DEAD = (make_pod("Worker-0"), make_pod("Worker-1", "Failed", exit_code=137))
DIED = planned(ON_EXIT_CODE, *ONE_DEAD)
SUSPENDED = of("RR", runPolicy={"suspend": True})
DONE = make_job(ALONE, status=planned(started(make_job(ALONE)), *pods("S")).status)
ALWAYS = planned(make_job({"Worker": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}}}))
RAN = make_job(TWO, status=planned(started(make_job(TWO)), *pods("RR")).status)
WORKERS = of("SR").status.replica_statuses["Worker"]
KINDS, OBSERVED = get_type_hints(ControllerInformers), ("jobs", "pods", "services", "deployments")
WITH_CONTAINERS = (launcher.DockerComponentLauncher, launcher.KubernetesPodComponentLauncher)


CHECKS: dict[str, Check] = {
    "`Created`": words(
        f"Running={IMAGE_WAITS.condition(C.RUNNING).status}", planned(make_job(ALONE)).is_true(C.CREATED)
    ),
    "`Running`, also as a phase": words(
        "In a job without a chief, any worker runs",
        of("RP").is_true(C.RUNNING),
        not planned(WITH_CHIEF, *pods("R", Chief="P")).is_true(C.RUNNING),
        planned(WITH_CHIEF, *pods("P", Chief="R")).is_true(C.RUNNING),
    ),
    "`Running`": words(C.READY, of("NR").is_true(C.RUNNING), not of("NR").is_true(C.READY)),
    "`Restarting`": words(
        f"The phase stays {DIED.status.phase} while another replica runs",
        DIED.is_true(C.RESTARTING),
        not DIED.is_true(C.RUNNING),
    ),
    "`Succeeded`, also as a phase": words(
        fields("spec", "minSucceededWorkers"),
        of("SR").is_true(C.SUCCEEDED),
        not of("RS").is_true(C.SUCCEEDED),
        not of("SR", successPolicy="AllWorkers").is_true(C.SUCCEEDED),
        of("RS", minSucceededWorkers=1).is_true(C.SUCCEEDED),
    ),
    "`Failed`": words(
        fields("spec", "maxFailedWorkers"),
        of("RF").status.phase == "Failed",
        not of("RF", maxFailedWorkers=1).is_true(C.FAILED),
        of("RR", 6, runPolicy={"activeDeadlineSeconds": 5}).is_true(C.FAILED),
        planned(make_job(ALONE), problems=("spec: it",)).is_true(C.FAILED),
    ),
    "(no `Suspended`)": words([C.SUSPENDED, f"The phase is {SUSPENDED.status.phase}"], SUSPENDED.is_true(C.SUSPENDED)),
    "(no `Stalled`)": lambda: [C.STALLED, "progressDeadlineSeconds"],
    "(no `Straggling`)": lambda: [C.STRAGGLING, "onStraggler"],
    "(no `Diverged`)": lambda: [C.DIVERGED, "ten "],
    "phase `Pending`": words("no replica runs yet", of("PP").status.phase == "Pending"),
    "phase `Unknown`": unknown,
    "`active`, `succeeded`, `failed`": words(
        "after a success, replicas that still ran count as succeeded",
        (WORKERS.active, WORKERS.succeeded, WORKERS.failed) == (0, 2, 0),
    ),
    "`startTime`": words(
        "by the time of the resumption",
        planned(make_job(ALONE, status=SUSPENDED.status), now=after(60)).status.start_time == after(60),
    ),
    "`lastReconcileTime`": lambda: [f"{QUIET_SECONDS / 60:.0f} minutes old", f"{5 * QUIET_SECONDS:,.0f} active jobs"],
    "the job is deleted once every pod has completed, or stays": words(
        "ttlSecondsAfterFinished", not planned(DONE, *pods("S"), now=after(10**7)).deletes_job
    ),
    "versions": lambda: [version["name"] for version in VERSIONS],
    "the replica type `Eval`; in the draft also the replica type `Local`": lambda: [
        f"`Eval` is called `{v1_name('Eval')}`",
        f"`Local` is called `{v1_name('Local')}`",
    ],
    "`tfReplicaStatuses`": lambda: fields("status", "replicaStatuses"),
    "`Always`": lambda: [f"`{body(ALONE)['spec']['restartPolicy']}`"],
    "the template's `restartPolicy`": words(
        "sends an event",
        ALWAYS.creations("pods")[0].body["spec"]["restartPolicy"] == "Never",
        "SetPodTemplateRestartPolicy" in ALWAYS.reasons,
    ),
    "exit codes from 1 to 127": permanent,
    "`Never`, or a permanent exit code": words(
        "by Kubernetes or a person",
        planned(RAN, *pods("R-")).created_pods == ["Worker-1"],
        not is_permanent(Ending(1, "", infrastructure=True), RestartPolicy.NEVER),
    ),
    "`--ps_hosts`, `--worker_hosts`, `--job_name`, `--task_index`": words(
        fields("spec", "clusterArguments"),
        "args" not in body(TWO, clusterArguments=False)["spec"]["containers"][0],
        "args" in body(TWO, clusterArguments=True)["spec"]["containers"][0],
    ),
    "`TF_CONFIG`": words("the only replica", not tf_config(ALONE), set(tf_config(TWO)) >= {"cluster", "task"}),
    "`TF_CONFIG`'s members": words(
        f"`environment: {tf_config(TWO)['environment']}`", "environment" not in tf_config(TWO, enableDynamicWorker=True)
    ),
    "indexes in names begin at 1": lambda: [body({"PS": 1})["metadata"]["name"].removeprefix("mnist-")],
    "names end in the job's UID": words(
        "`--unique-names`", first_name(UNIQUE_NAMES).startswith(f"{first_name(PLAIN_NAMES)}-")
    ),
    "each pod has a service": words(
        "`network: PerJob`",
        len(planned(make_job(TWO), services=()).creations("services")) == 2,
        len(planned(make_job(TWO, network="PerJob"), services=()).creations("services")) == 1,
    ),
    "`tensorboard`": lambda: fields("spec", "tensorBoard"),
    "a parameter server without template": words("empty by default", not plan_options().default_ps_image),
    "pods stay until the job is deleted (v1alpha1)": words(
        "stopped",
        (of("FR").stopped_pods, of("FR").deleted_pods) == (["Worker-1", "PS-0"], []),
        planned(ON_EXIT_CODE, *ONE_DEAD, now=after(60)).deleted_pods == ["Worker-1"],
    ),
    "a Job controller": lambda: [f"{body(ALONE)['metadata']['ownerReferences'][0]['kind']}'s own"],
    "the CreateHandler": words(
        "queue", {*signature(JobHandler).parameters} == {"enqueue", "enqueue_soon", "gone", "is_seen"}
    ),
    "`PodControl` and `ServiceControl`": words("one executor", {"pods", "services"} < set(get_args(OwnedKind))),
    "`informer-gen`": words("one generic class", {get_origin(KINDS[kind]) for kind in OBSERVED} == {InformerGroup}),
    "the reconciler lists a job's pods and services": words(
        "one list of all pods", "owned" in signature(Looker.look).parameters
    ),
    "Prow": lambda: re.findall(r"^test(?:-all)?(?=:)", (ROOT / "Makefile").read_text(), re.M),
    "`BeamRunner`": words("PipelineRunner", hasattr(pipeline, "PipelineRunner")),
    "`KubeflowDagRunner`": lambda: [argo_workflow(launch_plan())["kind"]],
    "Airflow": words("in a pod", "(KubernetesPodOperator)" in airflow_file(launch_plan())),
    "Argo repeats a launcher after any error (RFC)": lambda: ["exit codes {} and {}".format(*FINAL_EXIT_CODES)],
    "MLMD": words("its own database", "ml-metadata" not in (ROOT / "setup.cfg").read_text()),
    "the launcher's directory": words("with the run's records", launch_graph({}).root not in launch_plan().pods.home),
    "`can_launch`": words(
        "its own",
        launcher.KubernetesPodComponentLauncher.can_launch(CONTAINER, launcher.KubernetesPodPlatformConfig()),
        not launcher.KubernetesPodComponentLauncher.can_launch(CONTAINER, launcher.DockerPlatformConfig()),
    ),
    "a component that no launcher accepts": no_launcher,
    "Docker": words(
        "as on Kubernetes",
        *(
            issubclass(launcher_class, ContainerComponentLauncher) and "launch" not in vars(launcher_class)
            for launcher_class in WITH_CONTAINERS
        ),
    ),
    "`DockerPlatformConfig`": refused,
    "`outputs`": outputs,
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_the_code_does_what_the_row_of_a_difference_says(row: list[str]) -> None:
    first, here, _ = row
    checked = [str(word) for word in CHECKS[first.partition(":")[0]]()]
    assert [word for word in checked if word not in here] == []


def test_each_check_is_of_one_row() -> None:
    assert sorted(row[0].partition(":")[0] for row in ROWS) == sorted(CHECKS)
