import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.threads import run_at_once
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.operator.metrics.operator_metrics import OperatorMetrics
from tfoperator.workqueue.queue import Queue

PEER_LABELS = '{framework="tensorflow",job_namespace="ns"}'


def samples(metrics: OperatorMetrics) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in metrics.render().decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_the_go_operators_counters_keep_their_names_and_labels() -> None:
    metrics = OperatorMetrics()
    metrics.jobs.job_transitions("ns", {ConditionType.CREATED, ConditionType.RUNNING})
    for condition in (ConditionType.SUCCEEDED, ConditionType.FAILED, ConditionType.RESTARTING):
        metrics.jobs.job_transitions("ns", {condition})
    metrics.jobs.job_deleted("ns")
    for kind, created, failed in (("pods", 3, 1), ("services", 2, 0), ("podgroups", 5, 1)):
        metrics.jobs.objects_created(kind, created, failed)
    for kind, deleted in (("pods", 2), ("podgroups", 4)):
        metrics.jobs.objects_deleted(kind, deleted)
    values = samples(metrics)
    for what in ("created", "successful", "failed", "restarted", "deleted"):
        assert values[f"training_operator_jobs_{what}_total{PEER_LABELS}"] == 1
    expected = {
        "created_pods": 3,
        "failed_pods": 1,
        "deleted_pods": 2,
        "succeeded_service_creation": 2,
        "failed_service_creation": 0,
        "created_pod_groups": 5,
        "deleted_pod_groups": 4,
    }
    assert {name: values[f"training_operator_{name}_total"] for name in expected} == expected
    assert f"training_operator_jobs_deleted_total{PEER_LABELS}" not in samples(OperatorMetrics()), "each has its own"


def test_a_queue_reports_under_the_names_of_go_controllers() -> None:
    metrics = OperatorMetrics()
    queue: Queue[str] = Queue(name="tfjobs", metrics=metrics.queues)
    queue.add("a")
    queue.add("b")
    queue.done(queue.get())
    values = samples(metrics)
    names = ("depth", "adds_total", "work_duration_seconds_count", "unfinished_work_seconds")
    assert [values[f'workqueue_{name}{{controller="tfjobs",name="tfjobs"}}'] for name in names] == [1, 2, 1, 0]
    queue.shut_down(0)


def test_the_durations_of_requests_are_a_histogram_that_prometheus_reads() -> None:
    metrics = OperatorMetrics()
    for seconds in (0.001, 0.004, 0.004, 70.0):
        metrics.client.request("GET", "api:6443", "200", seconds)
    metrics.client.request("POST", "api:6443", "<error>", 0.3)
    metrics.client.retry("GET", "api:6443", "429")
    families = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    of_get = {
        sample.labels.get("le", sample.name.rpartition("_")[2]): sample.value
        for sample in families["rest_client_request_duration_seconds"].samples
        if sample.labels["verb"] == "GET"
    }
    assert families["rest_client_request_duration_seconds"].type == "histogram"
    assert (of_get["0.001"], of_get["0.0025"], of_get["0.005"], of_get["60.0"], of_get["+Inf"]) == (1, 1, 3, 3, 4)
    assert of_get["count"] == 4
    assert of_get["sum"] == pytest.approx(70.009)
    assert families["rest_client_requests"].type == "counter"
    codes = {sample.labels["code"]: sample.value for sample in families["rest_client_requests"].samples}
    assert codes == {"200": 4, "<error>": 1}
    assert families["rest_client_rate_limiter_duration_seconds"].samples == []
    metrics.client.rate_limiter_wait("GET", "api:6443", 0.0)
    values = samples(metrics)
    assert values['rest_client_request_retries_total{code="429",host="api:6443",verb="GET"}'] == 1
    assert values['rest_client_rate_limiter_duration_seconds_count{host="api:6443",verb="GET"}'] == 1


def test_requests_of_many_threads_are_all_counted() -> None:
    metrics = OperatorMetrics()

    def request() -> None:
        for _ in range(500):
            metrics.client.request("GET", "api:6443", "200", 0.004)

    run_at_once(*[request] * 8)
    values = samples(metrics)
    assert values['rest_client_requests_total{code="200",host="api:6443",method="GET"}'] == 4000
    assert values['rest_client_request_duration_seconds_count{host="api:6443",verb="GET"}'] == 4000


def test_an_informer_shows_its_freshness_relists_and_backlog() -> None:
    metrics = OperatorMetrics()
    informer = metrics.informers
    informer.list_finished("pods", 0.2, 100)
    informer.events_received("pods", "MODIFIED", 3)
    informer.handler_backlog("pods", "controller", lambda: 7)
    informer.store_size("pods", lambda: 100)
    informer.watch_failed("pods", "Expired")
    values = samples(metrics)
    assert 0 <= values['tfoperator_informer_last_event_age_seconds{informer="pods"}'] < 60
    expected = {
        'lists_total{informer="pods"}': 1,
        'handler_backlog{handler="controller",informer="pods"}': 7,
        'objects{informer="pods"}': 100,
        'events_total{informer="pods",type="MODIFIED"}': 3,
        'failures_total{informer="pods",reason="Expired",verb="watch"}': 1,
    }
    assert {name: values[f"tfoperator_informer_{name}"] for name in expected} == expected


def test_leadership_and_build_are_shown() -> None:
    metrics = OperatorMetrics()
    leading = [True]
    metrics.watch_leadership(lambda: leading[0], lease="of-mine")
    names = ("tfoperator_leader", 'leader_election_master_status{name="of-mine"}')
    assert [samples(metrics)[name] for name in names] == [1, 1]
    leading[0] = False
    assert [samples(metrics)[name] for name in names] == [0, 0]
    assert any(name.startswith("tfoperator_build_info") for name in samples(metrics))
