"""The trials of examples/katib, made and judged as Katib 0.19 does it: its source's rules are written down here."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tfoperator.api.replicas.names import LABEL_JOB_ROLE
from tfoperator.api.v1.types import TFJob
from tfoperator.sdk import JobFailed, TFJobClient

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(620)]

ROOT = Path(__file__).parents[2]
EXPERIMENT = yaml.safe_load((ROOT / "examples/katib/experiment.yaml").read_text())
TEMPLATE = EXPERIMENT["spec"]["trialTemplate"]


def trial_job(name: str, **assignments: str) -> dict[str, Any]:
    """Make a job from the template as `GetRunSpecWithHyperParameters` (experiment/manifest/generator.go) does."""
    text = json.dumps(TEMPLATE["trialSpec"])
    used = set()
    for parameter in TEMPLATE["trialParameters"]:
        if parameter["reference"] == "${trialSpec.Name}":
            value = name
        else:
            value = assignments[parameter["reference"]]
            used.add(parameter["reference"])
        text = text.replace(f"${{trialParameters.{parameter['name']}}}", value)
    assert used == set(assignments), "Katib refuses an assignment that no trial parameter refers to"
    job: dict[str, Any] = json.loads(text)
    owner = {"apiVersion": "kubeflow.org/v1beta1", "kind": "Trial", "name": name, "uid": "1"}
    job["metadata"] = {"name": name, "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}]}
    return job


def judged(job: TFJob) -> str:
    """Judge as `GetDeployedJobStatus` (trial/util/job_util.go) does with the default conditions for a TFJob.

    They are `status.conditions.#(type=="Failed")#|#(status=="True")#`, asked first, and the same with Succeeded.
    """
    conditions = msgspec.to_builtins(job.status).get("conditions", ())
    for kind in ("Failed", "Succeeded"):
        if [condition for condition in conditions if (condition["type"], condition["status"]) == (kind, "True")]:
            return kind
    return "Running"


def collected(log: str) -> list[float]:
    """The objective's values in a log, by `parseLogsInTextFormat` (file-metricscollector.go)."""
    wanted = EXPERIMENT["spec"]["objective"]["objectiveMetricName"]
    [pattern] = EXPERIMENT["spec"]["metricsCollectorSpec"]["source"]["filter"]["metricsFormat"]
    lines = (line for line in log.splitlines() if wanted in line)
    return [float(match[2]) for line in lines for match in re.finditer(pattern, line) if match[1].strip() == wanted]


def test_the_experiment_is_one_that_katib_takes() -> None:
    # experiment/validator/validator.go; names and references of trial parameters, and what the template asks for.
    assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", EXPERIMENT["metadata"]["name"])
    assert len(EXPERIMENT["metadata"]["name"]) <= 40
    parameters = {parameter["name"] for parameter in EXPERIMENT["spec"]["parameters"]} | {"${trialSpec.Name}"}
    given = {parameter["name"]: parameter["reference"] for parameter in TEMPLATE["trialParameters"]}
    assert set(given.values()) <= parameters
    asked = re.findall(r"\$\{trialParameters\.(.+?)\}", json.dumps(TEMPLATE["trialSpec"]))
    assert set(asked) == set(given)
    assert not {"metadata", "status"} & set(TEMPLATE["trialSpec"])
    replicas = TEMPLATE["trialSpec"]["spec"]["tfReplicaSpecs"].values()
    containers = [replica["template"]["spec"]["containers"] for replica in replicas]
    assert {container["name"] for [container] in containers} == {TEMPLATE["primaryContainerName"]}
    # Katib's additions to a template of a TFJob are not written here, so its defaults apply.
    assert not {"successCondition", "failureCondition", "primaryPodLabels"} & set(TEMPLATE)


def test_a_trial_that_trains_succeeds_and_one_that_cannot_start_fails() -> None:
    states_by_job: dict[str, list[str]] = {"trains": [], "fails": []}
    with TFJobClient.local(work_dir=ROOT) as client:
        for name, rate in (("trains", "0.2"), ("fails", "fast")):
            client.create_job(trial_job(name, learning_rate=rate))
        follow = {
            name: (lambda job, states=states: states.append(judged(job))) for name, states in states_by_job.items()
        }
        client.wait_for_job_conditions("trains", wait_timeout=300, callback=follow["trains"])
        with pytest.raises(JobFailed):
            client.wait_for_job_conditions("fails", wait_timeout=300, callback=follow["fails"])
        assert [states[-1] for states in states_by_job.values()] == ["Succeeded", "Failed"]
        assert set(states_by_job["trains"][:-1]) == {"Running"}, "judged before its end"

        # The default label of the pods that metrics are collected from, for a job of Kubeflow's.
        primary = [pod for pod in client.get_job_pods("trains") if pod.metadata.labels.get(LABEL_JOB_ROLE) == "master"]
        assert [pod.metadata.name for pod in primary] == ["trains-chief-0"]
        [log] = client.get_job_logs("trains", is_master=True).values()
        assert collected(log)[-1] > 0.8, log
