"""The operator as a Deployment with its own rights, on a real node: real containers, real DNS, real TensorFlow."""

import itertools
import json
import os
import re
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.support.eventually import eventually, eventually_holds
from tests.support.in_cluster import (
    LIMIT,
    PROMETHEUS_IMAGE,
    InCluster,
    but_for_time,
    example,
    examples,
    process_of,
    shell_job,
    volume_for,
    with_packages,
    with_rest,
)
from tests.support.prometheus import PrometheusApi


@pytest.mark.parametrize("network", ["PerReplica", "PerJob"])
def test_the_digits_example_trains_across_pods(namespace: InCluster, network: str) -> None:
    job = with_packages(example("digits/tfjob.yaml"))
    job["spec"]["network"] = network
    namespace.apply(job)
    waited = namespace.tfoperator("wait", "digits", "--for=Succeeded", f"--timeout={LIMIT:.0f}s", timeout=LIMIT + 30)
    assert waited.returncode == 0, waited.stderr
    log = namespace.kubectl("logs", "digits-chief-0")
    match = re.search(r"accuracy on held-out samples: (\d\.\d+)", log)
    assert match, log
    assert float(match[1]) >= 0.90
    assert "accuracy on held-out samples" in namespace.tfoperator("logs", "digits").stdout
    namespace.wait_event("digits", "TFJobSucceeded")
    assert "Succeeded" in namespace.kubectl("get", "tfj", "digits")
    hosts = namespace.get("pod", "digits-chief-0")["spec"]["containers"][0]["env"]
    within = "digits." if network == "PerJob" else ""
    host = f"digits-worker-1.{within}{namespace.namespace}.svc:2222"
    assert any(f'"{host}"' in variable.get("value", "") for variable in hosts)
    # The chief's pod stays, and with it the service that has its name.
    left = "digits" if network == "PerJob" else "digits-chief-0"

    def cleaned_up() -> None:
        services = namespace.kubectl("get", "services", "-o", "name", "-l", "training.kubeflow.org/job-name=digits")
        assert services.split() == [f"service/{left}"]

    eventually_holds(cleaned_up, within=LIMIT, every=0.3, what="services of pods that are gone have gone")


def test_a_program_is_told_of_many_replicas_by_their_whole_names(namespace: InCluster) -> None:
    """The kubelet's own way from variables that stand for each other to what a program reads."""
    job = shell_job("many", "sleep 1000", replicas=130, network="PerJob")
    # Only the chief runs; its TF_CONFIG names the others, which need no machine.
    replicas = job["spec"]["tfReplicaSpecs"]
    replicas["Chief"] = shell_job("many", 'echo "$TF_CONFIG"')["spec"]["tfReplicaSpecs"]["Worker"]
    replicas["Worker"]["template"]["spec"]["nodeSelector"] = {"example.com/there-is": "no-such-node"}
    namespace.apply(job)
    namespace.wait("many", "Succeeded")
    within = f"many.{namespace.namespace}.svc:2222"
    workers = [f"many-worker-{index}.{within}" for index in range(130)]
    assert json.loads(namespace.kubectl("logs", "many-chief-0")) == {
        "cluster": {"chief": [f"many-chief-0.{within}"], "worker": workers},
        "task": {"type": "chief", "index": 0},
        "environment": "cloud",
    }
    container = namespace.get("pod", "many-chief-0")["spec"]["containers"][0]
    assert len(next(variable["value"] for variable in container["env"] if variable["name"] == "TF_CONFIG")) < 1500


def test_another_leads_and_training_goes_on(namespace: InCluster, deployed: InCluster) -> None:
    script = "trap 'exit 0' USR1; echo up; sleep 1000 & wait"
    namespace.apply(shell_job("training", script, replicas=2, successPolicy="AllWorkers"))
    workers = ("training-worker-0", "training-worker-1")
    for pod in workers:
        namespace.wait_log(pod, "up")
    pods, before = namespace.pod_uids("training"), deployed.kill_leader()
    eventually(lambda: deployed.leader() not in ("", before), within=LIMIT, every=0.2, what="another leads")
    # A standby tries every second, and takes a lease that was not renewed for so long.
    assert deployed.get("lease", "tfoperator")["spec"]["leaseDurationSeconds"] + 1 < 20
    for pod in workers:
        namespace.kubectl.run("exec", pod, "--", "sh", "-c", "kill -USR1 1")
    namespace.wait("training", "Succeeded")
    assert namespace.pod_uids("training") == pods
    assert namespace.get("tfjob", "training")["status"].get("restarts", 0) == 0
    deployed.wait_operator()


def drain_node(namespace: InCluster, job: str) -> None:
    """Drain the node of this job's pods, and let it take pods again."""
    pods = f"--pod-selector=training.kubeflow.org/job-name={job}"
    try:
        namespace.kubectl("drain", "tfo-node", pods, "--timeout=100s", timeout=120)
    finally:
        namespace.kubectl("uncordon", "tfo-node")


def test_a_drained_node_costs_no_training(namespace: InCluster, tmp_path: Path) -> None:
    claim = example("checkpoint/claim.yaml")
    volume = volume_for(claim, namespace.namespace, tmp_path)
    job = with_rest(with_packages(example("checkpoint/tfjob.yaml")))
    for spec in job["spec"]["tfReplicaSpecs"].values():
        spec["restartPolicy"] = "OnFailure"
    namespace.apply(volume, claim, job)
    name = job["metadata"]["name"]
    namespace.wait_log(f"{name}-chief-0", "step 100/600")
    before = namespace.pod_uids(name)
    drain_node(namespace, name)
    namespace.wait(name, "Succeeded")
    assert "resumed from step" in namespace.kubectl("logs", f"{name}-chief-0")
    assert not set(before.values()) & set(namespace.pod_uids(name).values())
    assert namespace.get("tfjob", name)["status"]["restarts"] == len(before)


def test_a_tensorboard_is_reached_by_its_name(namespace: InCluster, tmp_path: Path) -> None:
    claim = example("tensorboard/claim.yaml")
    namespace.apply(volume_for(claim, namespace.namespace, tmp_path), claim)
    job = with_packages(example("tensorboard/tfjob.yaml"))
    job["spec"]["tfReplicaSpecs"]["Chief"]["template"]["spec"]["containers"][0]["command"] += ["--epochs=3"]
    namespace.apply(job)
    name = job["metadata"]["name"]

    def ready() -> None:
        board = namespace.get("tfjob", name).get("status", {}).get("tensorBoard", {})
        assert board.get("ready"), board

    eventually_holds(ready, within=LIMIT, every=0.5, what="the page is ready")
    namespace.wait(name, "Succeeded")
    # The job is over, its TensorBoard is not. Any pod may look at the page; its curves are the training's.
    url = namespace.get("tfjob", name)["status"]["tensorBoard"]["url"]
    assert url == f"http://{name}-tensorboard.{namespace.namespace}.svc"
    page = f"wget -qO- {url}/ | grep -o '<title>.*</title>'; wget -qO- {url}/data/runs"
    namespace.apply(shell_job("reader", page))
    namespace.wait("reader", "Succeeded")
    assert namespace.kubectl("logs", "reader-worker-0").split() == [
        "<title>TensorBoard</title>",
        '["test",',
        '"train"]',
    ]


def test_a_prometheus_in_the_cluster_sees_the_jobs(namespace: InCluster, deployed: InCluster) -> None:
    namespace.apply(shell_job("measured", "exit 0"))
    namespace.wait("measured", "Succeeded")
    # It finds both replicas by the name of their service, as one without Prometheus Operator would.
    targets = {"names": [f"tfoperator-metrics.{deployed.namespace}.svc.cluster.local"], "type": "A", "port": 8080}
    scrape = {"job_name": "tfoperator", "scrape_interval": "1s", "dns_sd_configs": [targets]}
    config = {"name": "prometheus", "namespace": namespace.namespace}
    container = {
        "name": "prometheus", "image": PROMETHEUS_IMAGE,
        "args": ["/usr/bin/prometheus", "--config.file=/config/prometheus.yaml", "--storage.tsdb.path=/tmp/data"],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": 9090}, "periodSeconds": 1},
    }  # fmt: skip
    spec = {"containers": [container], "volumes": [{"name": "config", "configMap": {"name": "prometheus"}}]}
    namespace.apply(
        {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": config,
            "data": {"prometheus.yaml": json.dumps({"scrape_configs": [scrape]})},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": config, "spec": spec},
    )  # fmt: skip
    namespace.kubectl("wait", "--for=condition=Ready", "pod/prometheus", "--timeout=100s", timeout=120)
    prometheus = PrometheusApi(f"http://{namespace.get('pod', 'prometheus')['status']['podIP']}:9090")
    eventually(lambda: len(prometheus.query("up == 1")) == 2, within=LIMIT, every=0.5, what="both are scraped")
    [leading] = prometheus.query("tfoperator_leader == 1")
    address = deployed.get("pod", deployed.leader().partition("_")[0])["status"]["podIP"]
    assert leading["metric"]["instance"] == f"{address}:8080"
    succeeded = f'training_operator_jobs_successful_total{{job_namespace="{namespace.namespace}"}}'
    assert [sample["value"][1] for sample in prometheus.query(succeeded)] == ["1"]


@pytest.mark.parametrize(
    "take",
    [
        ("delete", "pod", "taken-worker-0"),
        ("drain", "tfo-node", "--pod-selector=training.kubeflow.org/job-name=taken", "--timeout=100s"),
    ],
)
def test_under_never_a_pod_that_is_taken_is_made_again(namespace: InCluster, take: tuple[str, ...]) -> None:
    namespace.apply(shell_job("taken", "trap 'exit 1' TERM; echo up; sleep 1000 & wait", restart_policy="Never"))
    namespace.wait_log("taken-worker-0", "up")
    before = namespace.pod_uids("taken")
    try:
        namespace.kubectl(*take, timeout=120)
    finally:
        namespace.kubectl("uncordon", "tfo-node")
    eventually(lambda: runs_again(namespace, "taken", before), within=LIMIT, every=0.3, what="a new pod runs")


def runs_again(namespace: InCluster, name: str, before: dict[str, str]) -> bool:
    """Return whether pods other than those in `before` run, which is counted as one restart."""
    status = namespace.get("tfjob", name)["status"]
    size = len(before)
    assert (status.get("restarts"), status.get("ready")) == (1, f"{size}/{size}"), status
    return not set(before.values()) & set(namespace.pod_uids(name).values())


@pytest.mark.tensorflow
def test_two_workers_of_a_drained_node_go_on_where_they_were(namespace: InCluster, tmp_path: Path) -> None:
    claim, job = examples("preemption/tfjob.yaml")
    with_packages(job)
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["terminationGracePeriodSeconds"] = 60
    namespace.apply(volume_for(claim, namespace.namespace, tmp_path), claim, job)
    name = job["metadata"]["name"]
    workers = [f"{name}-worker-{index}" for index in range(2)]
    namespace.wait_log(workers[0], "step 20 ")
    before = namespace.pod_uids(name)
    done = max(map(int, re.findall(r"^step (\d+) ", namespace.kubectl("logs", workers[0]), re.MULTILINE)))
    drain_node(namespace, name)
    namespace.wait(name, "Succeeded")
    first = {int(re.findall(r"begins after step (\d+)", namespace.kubectl("logs", pod))[0]) for pod in workers}
    assert len(first) == 1
    assert first.pop() >= done
    assert not set(before.values()) & set(namespace.pod_uids(name).values())


def test_a_killed_container_comes_back_unless_never(namespace: InCluster) -> None:
    markers = {policy: f"{namespace.namespace}-{policy}" for policy in ("Always", "OnFailure", "ExitCode", "Never")}
    for policy, marker in markers.items():
        script = f"trap 'exit 0' TERM; echo {marker}; sleep 1000 & wait"
        namespace.apply(shell_job(policy.lower(), script, restart_policy=policy))
    for policy, marker in markers.items():
        namespace.wait_log(f"{policy.lower()}-worker-0", marker)
        os.kill(process_of(marker), signal.SIGKILL)
    namespace.wait("never", "Failed")
    del markers["Never"]

    def back(name: str) -> bool:
        status = namespace.get("tfjob", name)["status"]
        assert (status.get("restarts"), status.get("ready")) == (1, "1/1"), status
        return True

    def is_recorded(name: str, expected: Sequence[str]) -> bool:
        events = [event for event in namespace.list("events") if event["involvedObject"]["name"] == name]
        return [event["message"] for event in events if event["reason"] == "RestartedInPlace"] == [*expected]

    for policy, marker in markers.items():
        name = policy.lower()
        eventually(partial(back, name), within=LIMIT, every=0.3, what=f"the container of {name} is back")
        namespace.wait_log(f"{name}-worker-0", marker)
        assert namespace.kubectl("logs", f"{name}-worker-0") == f"{marker}\n"
        restart = f"restart 1 in pod {name}-worker-0, last exit code 137 (SIGKILL)."
        messages = () if policy == "ExitCode" else (f"worker-0 is restarted in place: {restart}",)
        eventually(
            partial(is_recorded, name, messages), within=LIMIT, every=0.3, what=f"an event of the restart of {name}"
        )


def test_the_failure_of_one_ends_the_others_and_keeps_their_pods_and_logs(namespace: InCluster) -> None:
    marker = f"{namespace.namespace}-at-work"
    script = f"trap 'echo saved; exit 0' TERM; trap 'exit 3' USR1; echo {marker}; sleep 1000 & wait"
    namespace.apply(shell_job("let-go", script, restart_policy="ExitCode", replicas=2, grace=60))
    for pod in ("let-go-worker-0", "let-go-worker-1"):
        namespace.wait_log(pod, marker)
    before = namespace.pod_uids("let-go")
    # Its exit code means nothing: the end of the container may end the command in it, too.
    namespace.kubectl.run("exec", "let-go-worker-1", "--", "sh", "-c", "kill -USR1 1")
    namespace.wait("let-go", "Failed")

    def ended() -> None:
        status = namespace.get("pod", "let-go-worker-0")["status"]
        assert (status["phase"], status.get("reason")) == ("Failed", "DeadlineExceeded"), status

    eventually_holds(ended, within=LIMIT, every=0.3, what="the kubelet ends the healthy worker")
    assert namespace.kubectl("logs", "let-go-worker-0").split() == [marker, "saved"]
    assert namespace.pod_uids("let-go") == before
    namespace.wait_event("let-go", "SuccessfulStopPod")
    assert re.search(r"worker-0 +Stopped .* job-failed", namespace.tfoperator("describe", "let-go").stdout)


def test_an_update_of_the_operator_disturbs_no_job(namespace: InCluster, deployed: InCluster) -> None:
    script = "trap 'exit 0' TERM; sleep 1000 & wait"
    names = [f"long-{number}" for number in range(JOBS)]
    namespace.apply(*(shell_job(name, script) for name in names))

    def all_run() -> None:
        states = [job.get("status", {}).get("ready") for job in namespace.list("tfjobs")]
        assert states.count("1/1") == JOBS, states

    eventually_holds(all_run, within=LIMIT, every=1, what=f"{JOBS} jobs run")
    before = snapshot(namespace)
    deployed.kubectl("rollout", "restart", "deployment/tfoperator")
    deployed.wait_operator()
    # The new leader has looked at every job when it has finished a job that came last.
    namespace.apply(shell_job("after-the-update", "exit 0"))
    namespace.wait("after-the-update", "Succeeded")
    after = snapshot(namespace)
    assert {name: after[name] for name in before} == before


JOBS = 10


def snapshot(namespace: InCluster) -> dict[str, object]:
    """Return all that an update must not touch: the statuses of jobs, and the UIDs of their pods and services."""
    jobs = {f"job {job['metadata']['name']}": but_for_time(job["status"]) for job in namespace.list("tfjobs")}
    pods = {f"pod {pod['metadata']['name']}": pod["metadata"]["uid"] for pod in namespace.list("pods")}
    services = {
        f"service {service['metadata']['name']}": service["metadata"]["uid"] for service in namespace.list("services")
    }
    return dict(itertools.chain(jobs.items(), pods.items(), services.items()))
