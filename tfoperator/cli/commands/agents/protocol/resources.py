"""The resources that an agent can read by URI: manifests of jobs, the fields of a TFJob, pages of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tfoperator.api.conversion import without_server_fields
from tfoperator.api.loading import to_yaml
from tfoperator.api.v1.types import TFJOBS
from tfoperator.cli.commands.agents.messages.answers import NOTICE
from tfoperator.cli.commands.agents.messages.arguments import AboutJob
from tfoperator.cli.commands.agents.messages.bounded import DEFAULT_CHARACTERS
from tfoperator.cli.commands.agents.messages.harmless import harmless
from tfoperator.cli.commands.agents.tools.scope import Scope
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.kube.protocol.verbs import decode_plain

SCHEME = "tfoperator"
FIELDS = f"{SCHEME}://fields"
JOB_MANIFEST = f"{SCHEME}://jobs/{{namespace}}/{{job}}/manifest"
RUN_MANIFEST = f"{SCHEME}://runs/{{run}}/{{job}}/manifest"
PAGES = Path(__file__).parent.with_name("pages")
"""The folder of the documentation: in the repository a link to docs/, in an installed package a copy of the pages."""

FOLDERS = ("tasks", "", "concepts", "reference", "operate")
"""The folders of pages that agents can read, in the order in which they are listed."""

_MANIFEST = re.compile(r"(?P<kind>jobs|runs)/(?P<place>[^/]+)/(?P<job>[^/]+)/manifest")


class DocsPage(msgspec.Struct, frozen=True):
    """A page of the documentation."""

    uri: str
    title: str
    path: Path


def pages() -> Iterator[DocsPage]:
    """Yield the pages of the documentation for users; pages that explain tasks come first."""
    for path in (path for folder in FOLDERS for path in sorted((PAGES / folder).glob("*.md"))):
        name = path.relative_to(PAGES).with_suffix("").as_posix()
        with path.open(encoding="utf-8") as lines:
            title = next((line[2:].strip() for line in lines if line.startswith("# ")), name)
        yield DocsPage(FIELDS if name == "fields" else f"{SCHEME}://docs/{name}", title, path)


def read(scope: Scope, uri: str) -> tuple[str, str]:
    """Return the media type and the text of a resource.

    The text has at most 8,000 characters, from the position in `?from=` of the URI on. If the text continues, its last
    line has the URI of the next part. Raises CliError for an unknown URI.
    """
    parts = urlsplit(uri)
    plain = parts._replace(query="", fragment="").geturl()
    start = _start(parts.query)
    page = next((page for page in pages() if page.uri == plain), None)
    if page is not None:
        return "text/markdown", _part(page.path.read_text(encoding="utf-8"), plain, start)
    match = _MANIFEST.fullmatch(plain.removeprefix(f"{SCHEME}://"))
    if match is None or parts.scheme != SCHEME:
        raise CliError(f"there is no resource {uri}", "To list the pages, call resources/list.", exit_code=EXIT_FAILED)
    return "application/yaml", _part(_manifest(scope, match), plain, start)


def _start(query: str) -> int:
    word = parse_qs(query).get("from", ["0"])[0]
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise CliError(f"?from={word}: must be a number of characters")
    return int(word)


def _part(text: str, uri: str, start: int) -> str:
    left = len(text) - start - DEFAULT_CHARACTERS
    more = f"\n... ({left} more characters: {uri}?from={start + DEFAULT_CHARACTERS})\n" if left > 0 else ""
    return text[start : start + DEFAULT_CHARACTERS] + more


def _manifest(scope: Scope, match: re.Match[str]) -> str:
    """Return the manifest of a job as YAML, without the fields that API servers add, and with masked secrets."""
    in_run = match["kind"] == "runs"
    words = (
        {"job": f"{match['place']}/{match['job']}"} if in_run else {"job": match["job"], "namespace": match["place"]}
    )
    try:
        asked = msgspec.convert(words, AboutJob)
    except msgspec.ValidationError as error:
        raise CliError(str(error)) from None
    if not in_run and scope.run_of(asked.job) is not None:
        raise CliError(f"{asked.job} is a run of this machine", f"Its manifest: {RUN_MANIFEST}")
    with scope.job(asked) as job_of:
        where = job_of.client.get_job(job_of.name).metadata.namespace
        stored: dict[str, Any] = job_of.client.api.get(TFJOBS, where, job_of.name, decode_plain)
    obj = without_server_fields({"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, **stored}).obj
    return f"# {NOTICE}\n{to_yaml([harmless(obj)])}"
