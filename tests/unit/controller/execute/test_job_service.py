"""The one service of a job whose network is PerJob, on an API server: its calls, its name, and what is in its way."""

from typing import Any

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import api_error
from tests.support.plan_options import plan_options
from tfoperator.api.v1.choices import Network
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import Status, StatusCause, StatusDetails, error_from_status
from tfoperator.kube.protocol.resources import PODS, SERVICES

PER_JOB = {"network": "PerJob"}


def test_a_job_costs_one_call_for_each_pod_and_one_for_the_service(harness: Harness) -> None:
    harness.submit(spec=PER_JOB, Worker=3, PS=1)
    harness.forget_calls()
    harness.sync()
    assert sorted(harness.calls("create", "delete", "get")) == [("create", "pods")] * 4 + [("create", "services")]
    assert harness.calls("create")[0] == ("create", "services")
    created = "Created 4 pods: job-ps-0, job-worker-0, job-worker-1, job-worker-2 and 1 service"
    assert harness.recorder.events == [("Normal", "SuccessfulCreatePod", created)]
    assert (harness.status()["network"], harness.calls_of_sync()) == ("PerJob", [])


@pytest.mark.parametrize("board", [{}, {"tensorBoard": {"logDir": "gs://bucket/logs"}}])
def test_a_foreign_service_of_the_name_is_told_once_and_holds_up_the_pods(
    harness: Harness, board: dict[str, Any]
) -> None:
    harness.api.put(SERVICES, {"metadata": {"name": "job", "namespace": "ns", "labels": {}}})
    harness.submit_and_sync(spec=PER_JOB | board, Worker=2)
    harness.sync(times=2)
    assert harness.api.names(PODS) == []
    [(reason, message)] = [event[1:] for event in harness.recorder.events if event[0] == "Warning"]
    assert reason == "FailedCreateService"
    assert message.startswith(
        "Service ns/job has a name that this job needs: this Service does not belong to this job. Delete"
    )
    assert message.endswith("or choose another name for the job")
    assert harness.queue.num_requeues("ns/job") > 0
    harness.api.remove(SERVICES, "ns", "job")
    harness.sync()
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    assert harness.queue.num_requeues("ns/job") == 0


def test_a_service_that_is_refused_for_good_makes_the_job_invalid(harness: Harness) -> None:
    harness.submit(spec=PER_JOB, Worker=1)
    cause = StatusCause(field="spec.ports", message="no such thing")
    invalid = error_from_status(Status(422, "Invalid", "Service is invalid", StatusDetails(causes=(cause,))))
    harness.api.fail("create", "services", invalid, times=5)
    harness.sync(times=2)
    assert "spec.network: the API server refuses the service" in harness.condition("Failed")["message"]


def test_a_new_operator_with_another_default_takes_the_job_as_it_is(harness: Harness) -> None:
    """A status was not written before the first one ended."""
    harness.api.fail("replace", "tfjobs", api_error(500), times=9)
    harness.submit_and_sync(spec=PER_JOB, Worker=2)
    job = harness.api.objects(TFJOBS)[0]
    assert not job.get("status")
    harness.controller.plan_with(plan_options(network=Network.PER_REPLICA))
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"network": None}})  # it was the default that had chosen
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.forget_calls()
    harness.sync(times=2)
    assert ("create", "services") not in harness.calls("create")
    assert {pod["spec"]["subdomain"] for pod in harness.api.objects(PODS)} == {"job"}
