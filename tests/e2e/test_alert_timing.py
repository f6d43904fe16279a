"""When each alert fires, and when it does not yet: hours of samples, evaluated by promtool."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.prometheus import COMPONENT, promtool

TARGET = 'job="tfoperator", namespace="tfoperator-system", instance="a"'
STANDBY = TARGET.replace('"a"', '"b"')
QUEUE = f'{TARGET}, name="tfjobs"'
JOBS = f'{TARGET}, job_namespace="team", framework="tensorflow"'


def of(metric: str, target: str = TARGET, **labels: str) -> str:
    """A series of a target, in Prometheus' notation."""
    own = [f'{name}="{value}"' for name, value in labels.items()]
    return f"{metric}{{{', '.join([target, *own])}}}"


DEPLOYMENT = 'kube_deployment_{}{{namespace="tfoperator-system", deployment="tfoperator", job="kube-state-metrics"}}'
EXPIRY = of("tfoperator_webhook_certificate_expiry_timestamp_seconds", pod="tfoperator-0")
DAY = 86400


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation, one sample a minute, and the minutes at which the alert is silent or fires."""

    alert: str
    series: Mapping[str, str]
    silent: tuple[int, ...]
    fires: int | None = None


HEALTHY = {
    of("up"): "1x180",
    of("up", STANDBY): "1x180",
    of("tfoperator_leader"): "1x180",
    of("tfoperator_leader", STANDBY): "0x180",
    of("tfoperator_crd_missing_fields"): "0x180",
    of("tfoperator_build_info", version="0.1.0"): "1x180",
    DEPLOYMENT.format("spec_replicas"): "2x180",
    DEPLOYMENT.format("status_replicas_ready"): "2x90 1x5 2x85",
    of("tfoperator_informer_last_event_age_seconds", informer="pods"): "55x180",
    # A standby takes nothing from its queue.
    of("workqueue_depth", STANDBY, name="tfjobs"): "7x180",
    of("workqueue_work_duration_seconds_count", STANDBY, name="tfjobs"): "0x180",
    of("workqueue_depth", QUEUE): "3x180",
    of("workqueue_work_duration_seconds_count", QUEUE): "0+60x180",
    of("workqueue_longest_running_processor_seconds", QUEUE): "2x180",
    of("workqueue_queue_duration_seconds_bucket", QUEUE, le="1"): "0+60x180",
    of("workqueue_queue_duration_seconds_bucket", QUEUE, le="+Inf"): "0+60x180",
    of("tfoperator_sync_failures_total", reason="ConflictError"): "2x180",
    of("tfoperator_reconcile_failures_total"): "1x180",
    of("tfoperator_reconcile_repairs_total", resource="pods"): "1x180",
    of("tfoperator_informer_failures_total", informer="pods", verb="watch", reason="x"): "0+1x180",
    of("tfoperator_informer_handler_failures_total", informer="pods", handler="x"): "0x180",
    of("rest_client_requests_total", code="200", method="GET"): "0+100x180",
    of("rest_client_requests_total", code="500", method="GET"): "0+1x180",
    of("rest_client_requests_total", code="403", method="POST"): "9x180",
    of("rest_client_rate_limiter_duration_seconds_bucket", le="0.05"): "0+60x180",
    of("rest_client_rate_limiter_duration_seconds_bucket", le="+Inf"): "0+60x180",
    # Requests of others, a certificate that is renewed in time, and a certificate that reaches the CRD.
    of("tfoperator_webhook_failures_total", reason="malformed"): "0+60x180",
    of("tfoperator_webhook_failures_total", reason="conversion"): "3x180",
    EXPIRY: f"{31 * DAY}x90 {90 * DAY}x90",
    of("tfoperator_webhook_registrations_total"): "1x90 2x90",
    of("tfoperator_archive_failures_total"): "2x180",
    of("training_operator_jobs_failed_total", JOBS): "0+0.1x180",
    of("training_operator_jobs_successful_total", JOBS): "0+0.2x180",
    of("training_operator_jobs_restarted_total", JOBS): "0+0.2x180",
    of("training_operator_failed_pods_total"): "4x180",
    of("tfoperator_stalled_jobs", JOBS): "0x180",
    of("tfoperator_usage_seconds_total", JOBS, phase="training"): "0+50x180",
    of("tfoperator_usage_seconds_total", JOBS, phase="lost"): "0+10x180",
    of("tfoperator_usage_seconds_total", JOBS, phase="suspended"): "0+600x180",
}


def steps(every: int, step: int = 1) -> str:
    """A counter that goes up once in so many minutes, for an hour."""
    return " ".join(f"{number * step}x{every - 1}" for number in range(60 // every + 1))


RESTARTS = {
    **HEALTHY,
    of("rest_client_requests_total", code="403", method="GET"): steps(10, 12),
    of("rest_client_requests_total", code="<error>", method="GET"): steps(10, 90),
    of("tfoperator_reconcile_failures_total"): steps(10, 4),
    of("tfoperator_sync_failures_total", reason="TransportError"): steps(10, 20),
    of("tfoperator_sync_failures_total", reason="ConflictError"): steps(9),
    of("tfoperator_informer_failures_total", informer="pods", verb="watch", reason="ConnectionRefused"): steps(10, 6),
}
"""An hour of healthy load in which the API server restarts each ten minutes, and a write conflicts each nine."""

BUCKET = "workqueue_queue_duration_seconds_bucket"
THROTTLE = "rest_client_rate_limiter_duration_seconds_bucket"

CASES = (
    Case("TFOperatorDown", {of("up"): "1x9 0x60"}, silent=(9, 14), fires=16),
    Case("TFOperatorDown", {of("up"): "1x9 _x60"}, silent=(9, 14), fires=20),
    Case("TFOperatorDown", {of("up"): "0x60", of("up", STANDBY): "1x60"}, silent=(50,)),
    Case("TFOperatorDown", {of("up"): "0x60"}, silent=(4,), fires=6),  # it has never answered
    Case("TFOperatorDown", {}, silent=(4,), fires=6),
    Case(  # of two installations, one is gone altogether
        "TFOperatorDown",
        {of("up"): "1x60", of("up", STANDBY.replace("-system", "-team")): "1x9 stale"},
        silent=(9, 14),
        fires=16,
    ),
    Case(  # of two releases in the same namespace, one is gone
        "TFOperatorDown",
        {of("up", service="tfoperator-metrics"): "1x60", of("up", STANDBY, service="b-metrics"): "1x9 stale"},
        silent=(9, 14),
        fires=16,
    ),
    Case("TFOperatorCrashLoop", {of("process_start_time_seconds"): "1x9 2x3 3x3 4x40"}, silent=(9, 17), fires=19),
    Case("TFOperatorCrashLoop", {of("process_start_time_seconds"): "1x9 2x30 3x60"}, silent=(20, 50)),
    Case("TFOperatorReplicaDown", {of("up"): "1x9 0x60", of("up", STANDBY): "1x60"}, (24,), 26),
    Case(
        "TFOperatorReplicaPending",
        {DEPLOYMENT.format("spec_replicas"): "2x60", DEPLOYMENT.format("status_replicas_ready"): "2x9 1x50"},
        silent=(9, 24),
        fires=26,
    ),
    Case(  # an update takes some minutes, and an administrator may want a single replica
        "TFOperatorReplicaPending",
        {DEPLOYMENT.format("spec_replicas"): "2x20 1x40", DEPLOYMENT.format("status_replicas_ready"): "2x9 1x50"},
        silent=(9, 24, 50),
    ),
    Case(
        "TFOperatorCRDOutdated",
        {of("tfoperator_crd_missing_fields", i): "3x30 0x30" for i in (TARGET, STANDBY)}
        | {of("tfoperator_build_info", i, version="0.1.0"): "1x60" for i in (TARGET, STANDBY)},
        silent=(9, 35),
        fires=11,
    ),
    Case("TFOperatorNoLeader", {of("tfoperator_leader"): "1x9 0x60"}, silent=(12,), fires=14),
    Case("TFOperatorSeveralLeaders", {of("tfoperator_leader", i): "1x60" for i in (TARGET, STANDBY)}, (2,), 4),
    Case(
        "TFOperatorSeveralLeaders",  # of namespaces of their own
        {of("tfoperator_leader", i): "1x60" for i in (TARGET, STANDBY.replace("-system", "-team"))},
        silent=(50,),
    ),
    Case(
        "TFOperatorSeveralLeaders",  # each of the two releases in a namespace has one leader
        {
            of("tfoperator_leader", service="tfoperator-metrics"): "1x60",
            of("tfoperator_leader", STANDBY, service="b-metrics"): "1x60",
        },
        silent=(50,),
    ),
    Case(
        "TFOperatorNoLeader",  # of two releases in a namespace, only one has a leader
        {
            of("tfoperator_leader", service="tfoperator-metrics"): "1x60",
            of("tfoperator_leader", STANDBY, service="b-metrics"): "1x9 0x60",
        },
        silent=(12,),
        fires=14,
    ),
    Case(
        "TFOperatorWatchLag",
        {of("tfoperator_informer_last_event_age_seconds", informer="pods"): "0+60x60"},
        silent=(5, 10),
        fires=12,
    ),
    Case(
        "TFOperatorWatchesFail",
        {of("tfoperator_informer_failures_total", informer="pods", verb="list", reason="500"): "0+6x60"},
        silent=(14,),
        fires=25,
    ),
    Case(
        "TFOperatorHandlersFail",
        {of("tfoperator_informer_handler_failures_total", informer="pods", handler="x"): "0x9 1x60"},
        silent=(9, 45),
        fires=12,
    ),
    Case(
        "TFOperatorWorkqueueStuck",
        {
            of("tfoperator_leader"): "1x60",
            of("workqueue_depth", QUEUE): "3x60",
            of("workqueue_work_duration_seconds_count", QUEUE): "0+6x9 60x50",
        },
        silent=(10, 20),
        fires=32,
    ),
    Case(
        "TFOperatorWorkqueueStuck",  # nothing to do is no reason
        {
            of("tfoperator_leader"): "1x60",
            of("workqueue_depth", QUEUE): "0x60",
            of("workqueue_work_duration_seconds_count", QUEUE): "60x60",
        },
        silent=(50,),
    ),
    Case("TFOperatorSyncHangs", {of("workqueue_longest_running_processor_seconds", QUEUE): "0+60x60"}, (5, 10), 12),
    Case(
        "TFOperatorWorkqueueSlow",
        {of(BUCKET, QUEUE, le=le): f"0+{rate}x60" for le, rate in (("10", 1), ("100", 9), ("+Inf", 9))},
        silent=(14,),
        fires=20,
    ),
    Case("TFOperatorSyncErrors", {of("tfoperator_sync_failures_total", reason="ApiError"): "0+1x60"}, (29,), 35),
    Case("TFOperatorReconcileErrors", {of("tfoperator_reconcile_failures_total"): "0+0.5x60"}, (15,), 25),
    Case("TFOperatorEventsLost", {of("tfoperator_reconcile_repairs_total", resource="pods"): "0x9 1x120"}, (9, 80), 15),
    Case(
        "TFOperatorAPIErrors",
        {
            of("rest_client_requests_total", code="200", method="GET"): "0+90x60",
            of("rest_client_requests_total", code="503", method="GET"): "0+5x60",
            of("rest_client_requests_total", code="<error>", method="GET"): "0+5x60",
        },
        silent=(14,),
        fires=20,
    ),
    Case("TFOperatorForbidden", {of("rest_client_requests_total", code="403", method="POST"): "0+1x60"}, (14,), 20),
    Case(
        "TFOperatorThrottled",
        {of(THROTTLE, le="1"): "0+1x60", of(THROTTLE, le="5"): "0+9x60", of(THROTTLE, le="+Inf"): "0+9x60"},
        silent=(14,),
        fires=20,
    ),
    Case(
        "TFOperatorTurnedAway",
        {
            of("rest_client_requests_total", code="201", method="POST"): "0+80x60",
            of("rest_client_requests_total", code="429", method="POST"): "0+20x60",
        },
        silent=(14,),
        fires=20,
    ),
    Case("TFOperatorWebhookFails", {of("tfoperator_webhook_failures_total", reason="conversion"): "0+1x60"}, (14,), 20),
    Case("TFOperatorWebhookCertificateExpires", {EXPIRY: f"{13 * DAY}x90"}, silent=(59,), fires=61),
    Case("TFOperatorWebhookCertificateExpires", {EXPIRY: "1x90"}, silent=(80,)),  # that is another alert's
    Case("TFOperatorWebhookWithoutCertificate", {EXPIRY: "0x9"}, silent=(4,), fires=6),
    Case("TFOperatorWebhookWithoutCertificate", {EXPIRY: f"{20 * 60}x60"}, silent=(24,), fires=26),
    Case("TFOperatorWebhookOverwritten", {of("tfoperator_webhook_registrations_total"): "0x9 0+0.2x60"}, (10, 30), 65),
    Case("TFOperatorLogsLost", {of("tfoperator_archive_failures_total"): "0x9 1x120"}, (9, 80), 15),
    Case("TFJobsFail", {of("training_operator_jobs_failed_total", JOBS): "0+0.1x120"}, silent=(10,), fires=60),
    Case(
        "TFJobsFail",
        {
            of("training_operator_jobs_failed_total", JOBS): "0+0.1x120",
            of("training_operator_jobs_successful_total", JOBS): "0+0.05x120",
        },
        silent=(10,),
        fires=60,
    ),
    Case("TFJobsRestart", {of("training_operator_jobs_restarted_total", JOBS): "0+1x120"}, silent=(10,), fires=60),
    Case("TFJobsStalled", {of("tfoperator_stalled_jobs", JOBS): "0x9 1x20 0x30"}, silent=(9, 35), fires=15),
    Case("TFJobStraggles", {of("tfoperator_job_slow_replicas", JOBS, job_name="slow"): "_x9 1x40"}, (9, 15), 25),
    Case(
        "TFJobsGoodputLow",
        {
            of("tfoperator_usage_seconds_total", JOBS, phase="training"): "0+20x300",
            of("tfoperator_usage_seconds_total", JOBS, phase="lost"): "0+40x300",
        },
        silent=(100,),
        fires=170,
    ),
    Case("TFJobPodsNotCreated", {of("training_operator_failed_pods_total"): "0+1x60"}, (14,), 20),
)


def rules() -> dict[str, Any]:
    return dict(yaml.safe_load((COMPONENT / "rules.yaml").read_text())["spec"])


def firing_test(alert: str, minute: int, fires: bool) -> dict[str, Any]:
    expression = f'count by (alertname) (ALERTS{{alertname=~"{alert}", alertstate="firing"}})'
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if fires else []
    return {"expr": expression, "eval_time": f"{minute}m", "exp_samples": expected}


def as_test(name: str, series: Mapping[str, str], expectations: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "promql_expr_test": expectations,
    }


def test_each_alert_fires_when_its_time_has_come_and_not_before(tmp_path: Path) -> None:
    tests = [
        as_test(
            f"{case.alert} {number}",
            case.series,
            [firing_test(case.alert, minute, fires=False) for minute in case.silent]
            + ([firing_test(case.alert, case.fires, fires=True)] if case.fires is not None else []),
        )
        for number, case in enumerate(CASES)
    ]
    tests.append(as_test("restarts", RESTARTS, [firing_test(".+", minute, fires=False) for minute in range(1, 60, 2)]))
    tests.append(as_test("all is well", HEALTHY, [firing_test(".+", minute, fires=False) for minute in (5, 60, 179)]))
    (tmp_path / "rules.json").write_text(json.dumps(rules()))
    whole = {"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.json").write_text(json.dumps(whole))
    assert "SUCCESS" in promtool("test", "rules", "tests.json", folder=tmp_path)


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    alerts = {rule["alert"] for group in rules()["groups"] for rule in group["rules"]}
    assert {case.alert for case in CASES if case.fires is not None} == alerts


def test_promtool_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps(rules()))
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.json", folder=tmp_path)
