"""A person in front of the page: a real Chromium, and a check that it asks nobody but the page's own server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.stage import Stage
from tfoperator.ui import PageContent, UiServer

WITHIN = 60_000  # milliseconds; a page that works needs a fraction of one second
expect.set_options(timeout=WITHIN)

_SERIOUS = ("serious", "critical")


class Person:
    """Opens pages; records the pages' requests, and the browser's complaints."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self.asked: list[str] = []
        self.complaints: list[str] = []
        context.set_default_timeout(WITHIN)
        context.on("request", lambda request: self.asked.append(request.url))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("console", self._heard)
        context.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def open(self, url: str) -> Page:
        """Open a page in a tab of its own."""
        page = self._context.new_page()
        page.goto(url)
        return page

    def elsewhere(self, port: int) -> list[str]:
        """Return the requests to other servers than the page's server."""
        own = {("http", f"127.0.0.1:{port}")}
        return [url for url in self.asked if (urlsplit(url).scheme, urlsplit(url).netloc) not in own]

    def _heard(self, message: Any) -> None:
        # A connection that broke is what some tests are about; browsers note each.
        if message.type == "error" and "ERR_" not in message.text and "401" not in message.text:
            self.complaints.append(message.text)


@contextmanager
def person(browser: Browser, port: int, **options: Any) -> Iterator[Person]:
    """A person with a browser profile of their own; fails at the end after complaints or requests to other servers."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    visitor = Person(context)
    try:
        try:
            yield visitor
        except AssertionError as error:
            raise AssertionError(f"{error}\nThe browser complains: {visitor.complaints}") from error
        assert visitor.elsewhere(port) == []
        assert visitor.complaints == []
    finally:
        context.close()


def faults(page: Page) -> list[str]:
    """Return the violations that axe calls serious or critical."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for violation in violations
        if violation["impact"] in _SERIOUS
        for node in violation["nodes"]
    ]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


class Shown:
    """A stage, the page's server on it, and whoever looks at it."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.stage = Stage()
        self.links: list[str] = []
        self.server = UiServer(self.stage, PageContent(**options), on_link=self.links.append)  # type: ignore[arg-type]
        self.browser = browser
        self.server.start()

    def by(self, **options: Any) -> Any:
        return person(self.browser, self.server.port, **options)

    def open(self, who: Person, path: str = "") -> Page:
        page = who.open(self.links[-1])
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        if path:
            page.goto(f"{self.server.url}{path}")
        return page
