"""The page of a real API server: the kinds that it watches there, and the kinds that the server lacks."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from hack.controlplane import ControlPlane
from tests.e2e.ui.test_commands import link_in, visited
from tests.support.cli import Cli
from tests.support.cluster import Cluster, tfjob
from tests.support.operator_process import OperatorProcess
from tfoperator.api.v1.types import TFJOBS

pytestmark = pytest.mark.controlplane


def test_the_jobs_of_a_real_api_server_are_followed_to_their_end(
    plane: ControlPlane,
    cluster: Cluster,
    start_operator: Callable[..., OperatorProcess],
    browser: Browser,
    tmp_path: Path,
) -> None:
    start_operator()
    cli = Cli(tmp_path)
    with cli.start("ui", "--kubeconfig", str(plane.kubeconfig), "-n", cluster.namespace) as served:
        link = link_in(served)
        with visited(browser, link) as page:
            expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
            cluster.submit(tfjob("mnist", Worker=2))
            cluster.submit(tfjob("gone", Worker=1))
            page.get_by_role("link", name="mnist").click()
            expect(page.get_by_text("Created 2 pods")).to_be_visible()
            cluster.run_pods(3)
            for name in ("worker-0", "worker-1"):
                expect(page.get_by_role("row").filter(has_text=name)).to_contain_text("Running")
            expect(page.get_by_role("alert")).to_have_count(0)
            page.get_by_role("tab", name="Resources").click()
            expect(page.get_by_role("tabpanel")).to_contain_text("The cluster has no metrics API")
            page.get_by_role("tab", name="Logs").click()  # empty: there is no kubelet with a log
            expect(page.get_by_role("log", name="Log of worker-0")).to_be_visible()
            page.get_by_role("tab", name="YAML").click()
            expect(page.get_by_label("The job as YAML")).to_contain_text(f"namespace: {cluster.namespace}")
            for index in range(2):
                cluster.set_phase(f"mnist-worker-{index}", "Succeeded")
            expect(page.locator(".badge").first).to_have_text("Succeeded")
            cluster.client.delete(TFJOBS, cluster.namespace, "gone")
            page.get_by_role("link", name="All jobs").click()
            rows = page.get_by_role("table", name="Jobs").get_by_role("link")
            expect(rows).to_have_text(["mnist"])
        assert served.end(signal.SIGINT) == 0
