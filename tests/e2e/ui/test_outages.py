"""The page when the API server, or the page's own server, goes away and comes back."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from playwright.sync_api import Browser, expect

from hack.processes import free_ports
from tests.e2e.ui.test_commands import link_in
from tests.support.browsing import person
from tests.support.cli import Cli, replica, tfjob
from tests.support.tcp_proxy import TcpProxy

_SPEAK = "n=0; while true; do n=$$((n+1)); echo line $$n; test -e more && echo after the outage; sleep 0.2; done"


@pytest.fixture
def kubeconfig(cli: Cli) -> str:
    return cli.local_up()["KUBECONFIG"]


@pytest.fixture
def proxy(cli: Cli, kubeconfig: str) -> Iterator[TcpProxy]:
    """Between the page's server and the API server; a kubeconfig named `by-proxy` leads through it."""
    config = yaml.safe_load(Path(kubeconfig).read_text())
    [cluster] = config["clusters"]
    address = urlsplit(cluster["cluster"]["server"])
    assert address.hostname is not None
    assert address.port is not None
    made = TcpProxy((address.hostname, address.port))
    cluster["cluster"]["server"] = f"https://127.0.0.1:{made.port}"
    (cli.folder / "by-proxy").write_text(yaml.safe_dump(config))
    try:
        yield made
    finally:
        made.close()


def test_what_happened_while_the_api_server_was_away_is_shown_when_it_is_back(
    cli: Cli, kubeconfig: str, proxy: TcpProxy, browser: Browser
) -> None:
    def submit(name: str) -> None:
        manifest = cli.write(tfjob(name, Worker=replica("sh", "-c", _SPEAK)))
        cli.run("submit", manifest, "--kubeconfig", kubeconfig, code=0)

    for name in ("talks", "goes"):
        submit(name)
    with cli.start("ui", "--kubeconfig", "by-proxy") as served:
        link = link_in(served)
        with person(browser, urlsplit(link).port or 0) as somebody:
            jobs = somebody.open(link)
            rows = jobs.get_by_role("table", name="Jobs").get_by_role("link")
            expect(rows).to_have_count(2)
            logs = somebody.open(f"{link.partition('#')[0]}#/jobs/default/talks/logs")
            log = logs.get_by_role("log", name="Log of worker-0")
            expect(log).to_contain_text(re.compile(r"line \d"))
            proxy.cut()
            for page in (jobs, logs):
                expect(page.get_by_role("alert")).to_contain_text("can't read some objects from the API server")
            expect(rows).to_have_count(2)  # what was known stays
            cli.run("delete", "goes", "--kubeconfig", kubeconfig, code=0)
            submit("comes")
            (cli.folder / "more").touch()
            proxy.restore()
            for page in (jobs, logs):
                expect(page.get_by_role("alert")).to_have_count(0)
            expect(jobs.get_by_role("link", name="comes")).to_be_visible()
            expect(jobs.get_by_role("link", name="goes")).to_have_count(0)
            expect(log).to_contain_text("after the outage")
        assert served.end(signal.SIGINT) == 0


def test_a_page_whose_server_was_killed_asks_for_the_link_of_the_next_one(
    cli: Cli, kubeconfig: str, browser: Browser
) -> None:
    manifest = cli.write(tfjob("talks", Worker=replica("sh", "-c", _SPEAK)))
    cli.run("submit", manifest, "--kubeconfig", kubeconfig, code=0)
    [port] = free_ports(1)
    command = ("ui", "--kubeconfig", kubeconfig, "--port", str(port))
    with person(browser, port) as somebody:
        with cli.start(*command) as served:
            page = somebody.open(link_in(served))
            expect(page.get_by_role("link", name="talks")).to_be_visible()
            served.end(signal.SIGKILL)
            expect(page.get_by_text("Connection lost. Connecting again")).to_be_visible()
        with cli.start(*command) as served:
            link = link_in(served)
            expect(page.get_by_role("heading", name="Open the link from the terminal")).to_be_visible()
            page.goto(link)
            expect(page.get_by_role("link", name="talks")).to_be_visible()
            assert served.end(signal.SIGINT) == 0
