"""Alert rules and dashboard of manifests/components/monitoring, in a real Prometheus that scrapes a real operator."""

import json
import re
import ssl
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from tests.support.cluster import tfjob
from tests.support.eventually import eventually, eventually_holds
from tests.support.operated import Operated
from tests.support.operator_process import free_port
from tests.support.prometheus import COMPONENT, SELECTOR, Prometheus
from tfoperator.servers.keyring.keyring import new_keyring

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]


def rules_without_patience() -> Json:
    """The rules, firing at once: how long each waits is tested where time costs nothing, by promtool."""
    spec: Json = yaml.safe_load((COMPONENT / "rules.yaml").read_text())["spec"]
    for group in spec["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    return spec


def dashboard_expressions() -> list[str]:
    """Every expression of the dashboard, for all namespaces and rates over a minute."""
    panels = json.loads((COMPONENT / "dashboard.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    chosen = {"$__rate_interval": "1m", "$namespace": ".*", "$job_namespace": ".*"}
    for variable, value in chosen.items():
        expressions = [expression.replace(variable, value) for expression in expressions]
    assert not [expression for expression in expressions if "$" in expression]
    return expressions


@pytest.fixture(scope="module")
def webhook_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def operator_flags(webhook_port: int, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The operator has all that can be measured: a webhook, whose certificate ends tomorrow, and a log archive."""
    folder = tmp_path_factory.mktemp("all")
    pair = new_keyring(["localhost"], datetime.now(UTC), timedelta(days=1)).serving
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    webhook = (f"--webhook-bind-address=127.0.0.1:{webhook_port}", f"--webhook-cert-dir={folder}")
    archive = (f"--archive-dir={folder / 'archive'}", "--archive-timeout=1s")
    return ("--restart-delay-base=100ms", *webhook, *archive)


def ask_for_a_conversion(port: int, version: str) -> None:
    """Send an API server's request for a job of some version; the metrics show whether it succeeds."""
    job = {"apiVersion": f"kubeflow.org/{version}", "kind": "TFJob", "metadata": {"name": "x"}, "spec": {}}
    request = {"uid": "1", "desiredAPIVersion": "kubeflow.org/v1", "objects": [job]}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    unchecked = ssl._create_unverified_context()
    url = f"https://127.0.0.1:{port}/convert"
    with urllib.request.urlopen(url, json.dumps(review).encode(), timeout=60, context=unchecked) as answer:
        assert answer.status == 200


@pytest.fixture(scope="module")
def prometheus(operated: Operated, webhook_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has seen a job's whole life, and evaluated the rules since."""
    folder = tmp_path_factory.mktemp("prometheus")
    server = Prometheus(folder, operated.operator.metrics_port, rules_without_patience())
    job = operated.running("mnist", restart_policy="OnFailure", PS=1, Worker=1)
    try:
        server.start()
        ask_for_a_conversion(webhook_port, "v1alpha2")
        job.fail("worker-0", exit_code=137)
        job.play("Running", "worker-0")
        trained = 'tfoperator_usage_seconds_total{phase="training"}'
        eventually(lambda: server.query(trained), every=0.1, what="a scrape shows a second of training")
        job.play("Succeeded", "worker-0", leads_to="Succeeded")
        series = "training_operator_jobs_successful_total"
        eventually(lambda: server.query(series), every=0.1, what="the scrape shows the job's end")
        since = {name: rule["lastEvaluation"] for name, rule in server.rules().items()}

        def evaluated() -> bool:
            return all(rule["lastEvaluation"] > since[name] for name, rule in server.rules().items())

        eventually(evaluated, every=0.1, what="the rules are evaluated")
        yield server
    finally:
        server.stop()
        print(f"--- prometheus\n{server.log.read_text()[-2000:] if server.log.exists() else ''}")


def test_every_rule_is_healthy_and_nothing_critical_fires_while_all_is_well(prometheus: Prometheus) -> None:
    rules = prometheus.rules()
    assert len(rules) >= 24
    assert {name: rule.get("lastError") for name, rule in rules.items() if rule["health"] != "ok"} == {}
    critical = {name for name, rule in rules.items() if rule["labels"]["severity"] == "critical"}
    assert len(critical) >= 5

    def nothing_critical() -> None:
        # A scrape that took longer than a second counts as unanswered until the next scrape.
        firing = critical & set(prometheus.firing())
        assert not firing, firing

    eventually_holds(nothing_critical, every=0.2, what="nothing critical fires")


def test_every_metric_of_rules_and_dashboard_is_exported(prometheus: Prometheus) -> None:
    rules = [rule["expr"] for group in rules_without_patience()["groups"] for rule in group["rules"]]
    # This operator serves no reports of progress, so it does not export what is slow; test_alert_timing has that alert.
    # Nor is there a kube-state-metrics.
    others = {"kube_deployment_spec_replicas", "kube_deployment_status_replicas_ready"}
    families = prometheus.families() | {"up", "tfoperator_job_slow_replicas"} | others
    metrics = set()
    for expression in [*rules, *dashboard_expressions()]:
        used = {match[0] for match in re.findall(SELECTOR, expression)}
        assert used, expression
        metrics |= used
        missing = {name for name in used if not families & {name, re.sub(r"_(bucket|sum|count)$", "", name)}}
        assert not missing, expression
    assert len(metrics) > 30


def test_every_matcher_of_rules_and_dashboard_finds_samples_of_a_metric_that_has_any(prometheus: Prometheus) -> None:
    rules = [rule["expr"] for group in rules_without_patience()["groups"] for rule in group["rules"]]
    selectors = {
        match for expression in [*rules, *dashboard_expressions()] for match in re.findall(SELECTOR, expression)
    }
    names = set(prometheus.get("label/__name__/values"))
    for name, matchers in sorted(selectors):
        # A healthy operator has no answers 403 or 500.
        if name in names and "code=" not in matchers:
            eventually(lambda query=f"{name}{matchers}": prometheus.query(query), every=0.2, what=f"{name}{matchers}")


def test_prometheus_understands_every_expression_of_the_dashboard_and_most_show_something(
    prometheus: Prometheus,
) -> None:
    expressions = dashboard_expressions()
    assert len(expressions) > 50

    def most_show_something() -> None:
        # A rate needs two scrapes. Events that have not happened (a failed sync, a repair) have no samples.
        empty = [expression for expression in expressions if not prometheus.query(expression)]
        assert len(empty) < len(expressions) / 4, empty

    eventually_holds(most_show_something, every=0.2, what="panels show something")


def test_alerts_fire_when_what_they_tell_of_happens(
    operated: Operated, prometheus: Prometheus, webhook_port: int
) -> None:
    """Jobs that fail, pods that are refused, logs that nobody has, and at last an operator that is gone."""
    failed = f'training_operator_jobs_failed_total{{job_namespace="{operated.cluster.namespace}"}}'

    def fail(*names: str) -> None:
        jobs = [operated.running(name, Worker=1) for name in names]
        for job in jobs:
            job.play("Failed", "worker-0", exit_code=1)

    # Prometheus counts an increase from the first sample on, so that has to be there.
    fail("bad-0")
    eventually(lambda: prometheus.query(f"{failed} >= 1"), every=0.1, what="the first failure is scraped")
    fail("bad-1", "bad-2", "bad-3")
    refused = tfjob("refused", Worker=1)
    refused["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "there-is-none"
    operated.submit(refused).wait_reasons("FailedCreatePod")
    mute = operated.running("mute", restart_policy="ExitCode", Worker=1)
    mute.bind("worker-0")  # to a node that isn't there
    mute.play("Failed", "worker-0", exit_code=137)
    mute.wait_reasons("LogsNotArchived")

    def fires(*names: str) -> bool:
        missing = set(names) - set(prometheus.firing())
        assert not missing, missing
        return True

    def fires_while_conversions_fail(*names: str) -> bool:
        ask_for_a_conversion(webhook_port, "v0")
        return fires(*names)

    of_jobs = ("TFJobsFail", "TFJobPodsNotCreated", "TFOperatorForbidden")
    expected = (*of_jobs, "TFOperatorLogsLost", "TFOperatorWebhookCertificateExpires", "TFOperatorWebhookFails")
    eventually(lambda: fires_while_conversions_fail(*expected), every=0.1, what="alerts fire")
    firing = prometheus.firing()
    assert operated.cluster.namespace in firing["TFJobsFail"]["description"]
    operated.operator.kill()
    eventually(lambda: fires("TFOperatorDown", "TFOperatorReplicaDown"), every=0.1, what="alerts fire")
    firing |= prometheus.firing()
    assert not [text for texts in firing.values() for text in texts.values() if "error expanding" in text]
