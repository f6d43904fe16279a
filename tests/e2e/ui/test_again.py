"""A person's view of things that come again: a link, a job and a pod of the same name, and in a second page."""

import pytest
from playwright.sync_api import Route, expect

from tests.support.browsing import Shown
from tests.support.stage import condition, moment, train
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS


@pytest.mark.parametrize("status", [None, 0, 503])
def test_a_link_is_good_in_the_tab_that_asks_for_one_and_again_if_its_sign_in_went_wrong_on_the_way(
    shown: Shown, status: int | None
) -> None:
    failed: list[str] = []

    def fail(route: Route) -> None:
        failed.append(route.request.url)
        if status:
            route.fulfill(status=status)
        else:
            route.abort()

    train(shown.stage)
    with shown.by() as somebody:
        page = somebody.open(shown.server.url)
        expect(page.get_by_role("heading", name="Open the link from the terminal")).to_be_visible()
        if status is not None:
            page.route("**/api/session", fail, times=1)
        # Only what follows the # differs, so the browser does not load the page again.
        page.goto(shown.links[-1])
        expect(page.get_by_role("link", name="mnist")).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        assert len(failed) == (status is not None)
        assert "token" not in page.url
        somebody.complaints[:] = [complaint for complaint in somebody.complaints if "503" not in complaint]


def test_a_job_that_is_made_anew_is_shown_as_it_is_and_not_as_its_predecessor_was(shown: Shown) -> None:
    train(shown.stage, workers=1)
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist/yaml")
        yaml = page.get_by_label("The job as YAML")
        expect(yaml).to_contain_text("replicas: 1")
        resources = shown.open(somebody, "#/jobs/default/mnist/resources")
        expect(resources.get_by_role("img", name="CPU (cores): worker-0 0.3")).to_be_visible()
        logs = shown.open(somebody, "#/jobs/default/mnist/logs")
        log = logs.get_by_role("log", name="Log of worker-0")
        expect(log).to_contain_text("step 299")
        for kind, name in ((PODS, "mnist-worker-0"), (TFJOBS, "mnist")):
            shown.stage.remove(kind, "default", name)
        shown.stage.logs.pop("mnist-worker-0").end()
        expect(page.get_by_role("alert")).to_contain_text("does not exist, or it was deleted")
        status = {"conditions": [condition("Running", "It runs again.")]}
        job = shown.stage.job("mnist", workers=2, status=status, created=moment(5000))
        pod = shown.stage.pod(job, 0, created=moment(5001))
        shown.stage.use(pod, "700m", "1Gi", at=5010)
        shown.stage.logs["mnist-worker-0"].write("the second begins\n")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(yaml).to_contain_text("replicas: 2")
        expect(log).to_contain_text("the second begins")
        expect(log).not_to_contain_text("step 299")
        expect(resources.get_by_role("img", name="CPU (cores): worker-0 0.7, from 0.7 to 0.7")).to_be_visible()


def test_the_log_of_a_pod_that_was_made_anew_is_told_from_that_of_its_predecessor(shown: Shown) -> None:
    job = train(shown.stage, workers=1)
    with shown.by() as somebody:
        page = shown.open(somebody, "#/jobs/default/mnist/logs")
        log = page.get_by_role("log", name="Log of worker-0")
        expect(log).to_contain_text("step 299")
        shown.stage.remove(PODS, "default", "mnist-worker-0")
        shown.stage.logs.pop("mnist-worker-0").end()
        shown.stage.logs["mnist-worker-0"].write("from the checkpoint\n")
        shown.stage.pod(job, 0, created=moment(70))
        expect(log).to_contain_text("mnist-worker-0, a new pod with the same name")
        expect(log).to_contain_text("from the checkpoint")


def test_two_pages_of_two_people_follow_the_same_job_and_neither_needs_the_other(shown: Shown) -> None:
    train(shown.stage)
    with shown.by() as first:
        first_page = shown.open(first, "#/jobs/default/mnist/logs")
        with shown.by() as second:
            second_page = shown.open(second, "#/jobs/default/mnist/logs")
            for page in (first_page, second_page):
                expect(page.get_by_role("log", name="Log of worker-1")).to_contain_text("step 299")
            shown.stage.logs["mnist-worker-1"].write("for both\n")
            for page in (first_page, second_page):
                expect(page.get_by_role("log", name="Log of worker-1")).to_contain_text("for both")
        shown.stage.logs["mnist-worker-1"].write("for the one who stays\n")
        expect(first_page.get_by_role("log", name="Log of worker-1")).to_contain_text("for the one who stays")
