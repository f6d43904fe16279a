"""When each alert fires, and when it does not yet: hours of samples, evaluated by promtool."""

from __future__ import annotations

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

EXPIRY = f'tfoperator_webhook_certificate_expiry_timestamp_seconds{{{TARGET}, pod="tfoperator-0"}}'
DAY = 86400


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation, one sample a minute, and the minutes at which the alert is silent or fires."""

    alert: str
    series: Mapping[str, str]
    silent: tuple[int, ...]
    fires: int | None = None


HEALTHY = {
    f"up{{{TARGET}}}": "1x180",
    f"up{{{STANDBY}}}": "1x180",
    f"tfoperator_leader{{{TARGET}}}": "1x180",
    f"tfoperator_leader{{{STANDBY}}}": "0x180",
    f'tfoperator_informer_last_event_age_seconds{{{TARGET}, informer="pods"}}': "55x180",
    # A standby takes nothing from its queue.
    f'workqueue_depth{{{STANDBY}, name="tfjobs"}}': "7x180",
    f'workqueue_work_duration_seconds_count{{{STANDBY}, name="tfjobs"}}': "0x180",
    f"workqueue_depth{{{QUEUE}}}": "3x180",
    f"workqueue_work_duration_seconds_count{{{QUEUE}}}": "0+60x180",
    f"workqueue_longest_running_processor_seconds{{{QUEUE}}}": "2x180",
    f'workqueue_queue_duration_seconds_bucket{{{QUEUE}, le="1"}}': "0+60x180",
    f'workqueue_queue_duration_seconds_bucket{{{QUEUE}, le="+Inf"}}': "0+60x180",
    f'tfoperator_sync_failures_total{{{TARGET}, reason="ConflictError"}}': "2x180",
    f"tfoperator_reconcile_failures_total{{{TARGET}}}": "1x180",
    f'tfoperator_reconcile_repairs_total{{{TARGET}, resource="pods"}}': "1x180",
    f'tfoperator_informer_failures_total{{{TARGET}, informer="pods", verb="watch", reason="x"}}': "0+1x180",
    f'tfoperator_informer_handler_failures_total{{{TARGET}, informer="pods", handler="x"}}': "0x180",
    f'rest_client_requests_total{{{TARGET}, code="200", method="GET"}}': "0+100x180",
    f'rest_client_requests_total{{{TARGET}, code="500", method="GET"}}': "0+1x180",
    f'rest_client_requests_total{{{TARGET}, code="403", method="POST"}}': "9x180",
    f'rest_client_rate_limiter_duration_seconds_bucket{{{TARGET}, le="0.05"}}': "0+60x180",
    f'rest_client_rate_limiter_duration_seconds_bucket{{{TARGET}, le="+Inf"}}': "0+60x180",
    # What a stranger sends, a certificate that is renewed in time, and one that the CRD hears of.
    f'tfoperator_webhook_failures_total{{{TARGET}, reason="malformed"}}': "0+60x180",
    f'tfoperator_webhook_failures_total{{{TARGET}, reason="conversion"}}': "3x180",
    f"{EXPIRY}": f"{31 * DAY}x90 {90 * DAY}x90",
    f"tfoperator_webhook_registrations_total{{{TARGET}}}": "1x90 2x90",
    f"tfoperator_archive_failures_total{{{TARGET}}}": "2x180",
    f"training_operator_jobs_failed_total{{{JOBS}}}": "0+0.1x180",
    f"training_operator_jobs_successful_total{{{JOBS}}}": "0+0.2x180",
    f"training_operator_jobs_restarted_total{{{JOBS}}}": "0+0.2x180",
    f"training_operator_failed_pods_total{{{TARGET}}}": "4x180",
}

BUCKET = f"workqueue_queue_duration_seconds_bucket{{{QUEUE}"
THROTTLE = f"rest_client_rate_limiter_duration_seconds_bucket{{{TARGET}"

CASES = (
    Case("TFOperatorDown", {f"up{{{TARGET}}}": "1x9 0x60"}, silent=(9, 14), fires=16),
    Case("TFOperatorDown", {f"up{{{TARGET}}}": "1x9 _x60"}, silent=(9, 14), fires=20),
    Case("TFOperatorDown", {f"up{{{TARGET}}}": "0x60", f"up{{{STANDBY}}}": "1x60"}, silent=(50,)),
    Case("TFOperatorReplicaDown", {f"up{{{TARGET}}}": "1x9 0x60", f"up{{{STANDBY}}}": "1x60"}, (24,), 26),
    Case("TFOperatorNoLeader", {f"tfoperator_leader{{{TARGET}}}": "1x9 0x60"}, silent=(12,), fires=14),
    Case("TFOperatorSeveralLeaders", {f"tfoperator_leader{{{i}}}": "1x60" for i in (TARGET, STANDBY)}, (2,), 4),
    Case(
        "TFOperatorSeveralLeaders",  # of namespaces of their own
        {f"tfoperator_leader{{{i}}}": "1x60" for i in (TARGET, STANDBY.replace("-system", "-team"))},
        silent=(50,),
    ),
    Case(
        "TFOperatorWatchLag",
        {f'tfoperator_informer_last_event_age_seconds{{{TARGET}, informer="pods"}}': "0+60x60"},
        silent=(5, 10),
        fires=12,
    ),
    Case(
        "TFOperatorWatchesFail",
        {f'tfoperator_informer_failures_total{{{TARGET}, informer="pods", verb="list", reason="500"}}': "0+6x60"},
        silent=(14,),
        fires=25,
    ),
    Case(
        "TFOperatorHandlersFail",
        {f'tfoperator_informer_handler_failures_total{{{TARGET}, informer="pods", handler="x"}}': "0x9 1x60"},
        silent=(9, 45),
        fires=12,
    ),
    Case(
        "TFOperatorWorkqueueStuck",
        {
            f"tfoperator_leader{{{TARGET}}}": "1x60",
            f"workqueue_depth{{{QUEUE}}}": "3x60",
            f"workqueue_work_duration_seconds_count{{{QUEUE}}}": "0+6x9 60x50",
        },
        silent=(10, 20),
        fires=32,
    ),
    Case(
        "TFOperatorWorkqueueStuck",  # nothing to do is no reason
        {
            f"tfoperator_leader{{{TARGET}}}": "1x60",
            f"workqueue_depth{{{QUEUE}}}": "0x60",
            f"workqueue_work_duration_seconds_count{{{QUEUE}}}": "60x60",
        },
        silent=(50,),
    ),
    Case(
        "TFOperatorSyncHangs",
        {f"workqueue_longest_running_processor_seconds{{{QUEUE}}}": "0+60x60"},
        silent=(5, 10),
        fires=12,
    ),
    Case(
        "TFOperatorWorkqueueSlow",
        {f'{BUCKET}, le="10"}}': "0+1x60", f'{BUCKET}, le="100"}}': "0+9x60", f'{BUCKET}, le="+Inf"}}': "0+9x60"},
        silent=(14,),
        fires=20,
    ),
    Case(
        "TFOperatorSyncErrors",
        {f'tfoperator_sync_failures_total{{{TARGET}, reason="ApiError"}}': "0+1x60"},
        silent=(29,),
        fires=35,
    ),
    Case("TFOperatorReconcileErrors", {f"tfoperator_reconcile_failures_total{{{TARGET}}}": "0+0.5x60"}, (5,), 15),
    Case(
        "TFOperatorEventsLost",
        {f'tfoperator_reconcile_repairs_total{{{TARGET}, resource="pods"}}': "0x9 1x120"},
        silent=(9, 80),
        fires=15,
    ),
    Case(
        "TFOperatorAPIErrors",
        {
            f'rest_client_requests_total{{{TARGET}, code="200", method="GET"}}': "0+90x60",
            f'rest_client_requests_total{{{TARGET}, code="503", method="GET"}}': "0+5x60",
            f'rest_client_requests_total{{{TARGET}, code="<error>", method="GET"}}': "0+5x60",
        },
        silent=(14,),
        fires=20,
    ),
    Case(
        "TFOperatorForbidden",
        {f'rest_client_requests_total{{{TARGET}, code="403", method="POST"}}': "0+1x60"},
        silent=(14,),
        fires=20,
    ),
    Case(
        "TFOperatorThrottled",
        {f'{THROTTLE}, le="1"}}': "0+1x60", f'{THROTTLE}, le="5"}}': "0+9x60", f'{THROTTLE}, le="+Inf"}}': "0+9x60"},
        silent=(14,),
        fires=20,
    ),
    Case(
        "TFOperatorWebhookFails",
        {f'tfoperator_webhook_failures_total{{{TARGET}, reason="conversion"}}': "0+1x60"},
        silent=(14,),
        fires=20,
    ),
    Case("TFOperatorWebhookCertificateExpires", {EXPIRY: f"{13 * DAY}x90"}, silent=(59,), fires=61),
    Case("TFOperatorWebhookCertificateExpires", {EXPIRY: "1x90"}, silent=(80,)),  # that is another alert's
    Case("TFOperatorWebhookWithoutCertificate", {EXPIRY: "0x9"}, silent=(4,), fires=6),
    Case("TFOperatorWebhookWithoutCertificate", {EXPIRY: f"{20 * 60}x60"}, silent=(24,), fires=26),
    Case(
        "TFOperatorWebhookOverwritten",
        {f"tfoperator_webhook_registrations_total{{{TARGET}}}": "0x9 0+0.2x60"},
        silent=(10, 30),
        fires=65,
    ),
    Case("TFOperatorLogsLost", {f"tfoperator_archive_failures_total{{{TARGET}}}": "0x9 1x120"}, (9, 80), 15),
    Case("TFJobsFail", {f"training_operator_jobs_failed_total{{{JOBS}}}": "0+0.1x120"}, silent=(10,), fires=60),
    Case(
        "TFJobsFail",
        {
            f"training_operator_jobs_failed_total{{{JOBS}}}": "0+0.1x120",
            f"training_operator_jobs_successful_total{{{JOBS}}}": "0+0.05x120",
        },
        silent=(10,),
        fires=60,
    ),
    Case("TFJobsRestart", {f"training_operator_jobs_restarted_total{{{JOBS}}}": "0+1x120"}, silent=(10,), fires=60),
    Case("TFJobPodsNotCreated", {f"training_operator_failed_pods_total{{{TARGET}}}": "0+1x60"}, (14,), 20),
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
