"""A deleted job gives its quota back, at whatever moment of its life it is deleted."""

from collections.abc import Iterator

import pytest

from tests.e2e.deleted_jobs import DeletedJobs, wait_collected
from tests.e2e.queue_plans import plans_cluster
from tests.e2e.queues import Queues

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with plans_cluster(tmp_path_factory.mktemp("deletions"), "ours", gangs=True) as started:
        wait_collected(started)
        yield started


def test_nothing_is_left_of_jobs_that_are_deleted_at_random_moments(ours: Queues) -> None:
    jobs = DeletedJobs(ours, seed=1)
    assert jobs.play(80) == []
    assert jobs.seen["pods"] > 80, jobs.seen


def test_nothing_is_left_of_jobs_whose_workloads_were_deleted_just_before_them(ours: Queues) -> None:
    assert DeletedJobs(ours, seed=2).play_workloads_first(10) == []
