import re
from pathlib import Path

import pytest

from hack.site import __main__ as building
from hack.site.pages import PUBLIC, cli_reference
from hack.site.stage import StageError, relinked

FILES = {"docs/a.md", "docs/b.md", "SECURITY.md", "examples/digits/train.py", "manifests/base/rbac.yaml"}
PLACES = {"docs/a.md": "a.md", "docs/b.md": "b.md", "SECURITY.md": "project/security.md"}


@pytest.fixture(scope="module")
def site() -> Path:
    assert building.main() == 0, "MkDocs has warned"
    return building.SITE


def test_the_site_has_a_page_for_each_package_and_command(site: Path) -> None:
    commands = (site / "cli.html").read_text()
    assert 'id="tfoperator-migrate"' in commands
    assert 'id="tfoperator-local-up"' in commands
    for name in PUBLIC:
        assert f'id="{name}.' in (site / f"api/{name}.html").read_text()
    client = (site / "api/tfoperator.sdk.html").read_text()
    assert "wait_for_job_conditions" in client


def test_a_page_of_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="?(?:https?:)?//|<link[^>]*\shref="?(?:https?:)?//')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [page for page in pages if loads.search(page.read_text())] == []
    styles = [page for page in site.rglob("*.css") if re.search(r"url\(\W?(?:https?:)?//", page.read_text())]
    assert styles == []
    assert "static/iframe-worker.js" in (site / "index.html").read_text()


@pytest.mark.parametrize(
    ("path", "link", "expected"),
    [
        ("docs/a.md", "b.md#part", "b.md#part"),
        ("docs/a.md", "../SECURITY.md", "project/security.md"),
        ("SECURITY.md", "docs/a.md", "../a.md"),
        ("docs/a.md", "../examples/digits", "examples/digits.md"),
        ("docs/a.md", "../examples/digits/train.py", "examples/digits.md#train-py"),
        ("docs/a.md", "../manifests/base/rbac.yaml", "files/manifests/base/rbac.yaml"),
        ("docs/a.md", "https://example.com/a.md", "https://example.com/a.md"),
        ("docs/a.md", "#here", "#here"),
    ],
)
def test_a_link_leads_to_the_same_on_the_site(path: str, link: str, expected: str) -> None:
    text, copied = relinked(f"see [it]({link})\n", path, PLACES, FILES)
    assert text == f"see [it]({expected})\n"
    assert copied == ({"manifests/base/rbac.yaml"} if "rbac" in link else set())


def test_a_warning_of_mkdocs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Start\n")
    config = "site_name: x\nnav: [index.md]\nvalidation: {nav: {omitted_files: warn}}\n"
    (tmp_path / "mkdocs.yml").write_text(config)
    assert building.build(tmp_path) == ""
    (tmp_path / "docs" / "forgotten.md").write_text("# Forgotten\n")
    assert "forgotten.md" in building.build(tmp_path)


def test_code_is_left_as_it_is_and_a_link_to_nothing_is_an_error_that_names_page_and_link() -> None:
    text = "```sh\n[a](b.md)\n```\n"
    assert relinked(text, "SECURITY.md", PLACES, FILES) == (text, set())
    with pytest.raises(StageError, match=r"docs/a\.md: gone\.md"):
        relinked("[x](gone.md)", "docs/a.md", PLACES, FILES)


def test_placeholders_of_the_help_are_not_taken_for_html() -> None:
    assert not re.search(r"^\* `[^`]*$", cli_reference(), re.MULTILINE)
