import pytest

from tests.unit.controller.builders import NOW, make_pod
from tfoperator.api.replicas.left_running import left_running, left_running_text
from tfoperator.api.replicas.replica_pods import STOP_DEADLINE


def test_pods_that_have_ended_or_are_being_ended_are_not_left_running() -> None:
    stopped = make_pod("Worker-3", deadline=STOP_DEADLINE, stopped="job-succeeded")
    pods = [
        make_pod("Worker-1"), make_pod("Evaluator-0", "Pending"), make_pod("Worker-0", "Succeeded", exit_code=0),
        make_pod("Worker-2", deleted=NOW), stopped,
    ]  # fmt: skip
    assert [pod.metadata.name for pod in left_running(pods)] == ["mnist-evaluator-0", "mnist-worker-1"]


@pytest.mark.parametrize(
    ("count", "begin"),
    [
        (1, "1 pod still runs (worker-0). The operator lets running pods finish"),
        (
            5,
            "5 pods still run (worker-0, worker-1, worker-2, worker-3, worker-4). The operator lets",
        ),
        (
            1000,
            "1000 pods still run (worker-0, worker-1, worker-2, worker-3, worker-4, ...). The operator lets",
        ),
    ],
)
def test_the_text_is_short_whatever_the_number_of_pods(count: int, begin: str) -> None:
    assert left_running_text([make_pod(f"Worker-{index}") for index in range(count)]).startswith(begin)
