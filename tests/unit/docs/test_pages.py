"""Everything that the pages name exists: files, headings, commands with their options, and targets of make."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from hack.fields import field_rows
from tfoperator.api import validate_manifest
from tfoperator.api.fields.field import GO_OPERATOR
from tfoperator.api.loading import parse_manifests
from tfoperator.cli.app import make_app

ROOT = Path(__file__).resolve().parents[3]
TUTORIALS = sorted(ROOT.glob("docs/tutorial-*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDERS = ("tasks", "concepts", "operate", "evidence", "reference")
"""Folders of docs whose pages the first page links to."""
MOST_WORDS_OF_A_TASK = 400
MOST_WORDS_OF_A_SCREEN = 500
MOST_WORDS_OF_A_REFERENCE = 1500
LANGUAGES = {"sh", "console", "yaml", "json", "python", ""}


def test_the_page_about_jobs_has_every_field_of_ours() -> None:
    pages = [ROOT / "docs/tfjob.md", *sorted((ROOT / "docs/reference").glob("*.md"))]
    text = "\n".join(page.read_text() for page in pages)
    ours = [row.path for row in field_rows() if row.path.startswith("spec.") and row.since != GO_OPERATOR]
    missing = [path for path in ours if not re.search(rf"\b{path.rpartition('.')[2]}\b", text)]
    assert not missing, f"write about {', '.join(missing)} in docs/tfjob.md or docs/reference"


def prose(page: Path) -> str:
    return _BLOCK.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in plain}


def blocks(page: Path, language: str) -> list[str]:
    return [text for block_language, text in _BLOCK.findall(page.read_text()) if block_language == language]


def with_blocks(*languages: str) -> list[Path]:
    """Pages that have a block in one of these languages."""
    return [page for page in PAGES if any(blocks(page, language) for language in languages)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_relative_link_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    broken = []
    for link in _LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        exists = target.exists() and (not anchor or anchor in anchors(target))
        if not exists or not target.is_relative_to(ROOT):
            broken.append(link)
    assert not broken


def test_a_page_that_is_not_in_the_list_of_all_pages_is_not_found() -> None:
    for folder in (ROOT / "docs", ROOT / "docs" / "decisions"):
        listed = set(_LINK.findall((folder / "README.md").read_text()))
        assert {page.name for page in folder.glob("*.md")} - listed == {"README.md"}


def test_each_page_about_a_task_a_concept_operation_evidence_or_a_field_is_linked_from_the_first_page() -> None:
    docs = ROOT / "docs"
    listed = {link.partition("#")[0] for link in _LINK.findall((docs / "README.md").read_text())}
    pages = [page for folder in FOLDERS for page in sorted((docs / folder).glob("*.md"))]
    assert [name for page in pages if (name := str(page.relative_to(docs))) not in listed] == []


def test_the_pages_that_prove_a_claim_are_one_screen_and_link_to_each_appendix() -> None:
    docs = ROOT / "docs"
    listed = set()
    for name in ("faults.md", "benchmark.md"):
        text = (docs / name).read_text()
        assert len(text.split()) < MOST_WORDS_OF_A_SCREEN, f"{name} is too long"
        listed |= {link.partition("#")[0] for link in _LINK.findall(text)}
    assert {f"evidence/{page.name}" for page in (docs / "evidence").glob("*.md")} - listed == set()


def test_a_page_about_a_task_begins_with_something_to_run_and_is_short() -> None:
    """A sentence comes first, then a block. Words of blocks don't count."""
    for page in sorted((ROOT / "docs/tasks").glob("*.md")):
        text = page.read_text()
        assert re.match(r"# [^\n]+\n\n(?:[^\n]+\n)+\n```(?:yaml|sh|console|python)\b", text), (
            f"{page.name} begins otherwise"
        )
        assert len(prose(page).split()) <= MOST_WORDS_OF_A_TASK, f"{page.name} is too long"


def test_each_section_about_a_rule_of_a_tfjob_begins_with_a_table_or_a_block() -> None:
    """A short paragraph may come before it, as an introduction; below the title the paragraph is required."""
    linked = {link.partition("#")[0] for link in _LINK.findall((ROOT / "docs/tfjob.md").read_text())}
    rules = [page for page in (ROOT / "docs/reference").glob("*.md") if f"reference/{page.name}" in linked]
    assert len(rules) > 10
    for page in sorted(rules):
        text = page.read_text()
        title, *sections = re.split(r"^## [^\n]+\n", text, flags=re.MULTILINE)
        assert re.match(r"# [^\n]+\n\n(?:[^\n|]+\n)+\n(?:```|\|)", title), f"{page.name} begins otherwise"
        begins = r"\n(?:(?:(?!```|[|#-])[^\n]+\n){1,4}\n)?(?:```|\|)"
        assert all(re.match(begins, section) for section in sections), f"{page.name} has another section"
        assert len(text.split()) <= MOST_WORDS_OF_A_REFERENCE, f"{page.name} is too long"


def test_a_page_about_a_concept_has_a_picture() -> None:
    for page in sorted((ROOT / "docs/concepts").glob("*.md")):
        assert blocks(page, ""), f"{page.name} has no drawing"


@pytest.mark.parametrize("page", with_blocks("sh", "console"), ids=name_of)
def test_the_commands_of_a_page_exist_with_the_options_that_it_gives_them(page: Path) -> None:
    for words in tfoperator_commands(page):
        command, arguments = command_of(words[1:])
        if command.name == "operator":  # which has a parser of its own
            continue
        options = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
        # The words after -- are for the program that is run.
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        given = {word.partition("=")[0] for word in own if word.startswith("-") and len(word) > 1}
        assert given <= options | {"-h", "--help"}, words


def tfoperator_commands(page: Path) -> list[list[str]]:
    """The words of each line of shell that begins with `tfoperator`, up to a pipe or a redirection."""
    commands = []
    texts = [*blocks(page, "sh"), *blocks(page, "console")]
    for line in "\n".join(texts).replace("\\\n", " ").splitlines():
        line = re.sub(r"^(\$ |! )+", "", line)
        if line.startswith("tfoperator "):
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>;&")
            lexer.whitespace_split = True
            words = list(lexer)
            end = next((at for at, word in enumerate(words) if set(word) <= set("|<>;&")), len(words))
            commands.append(words[:end])
    return commands


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words begin with, and the rest of them."""
    command: Any = typer.main.get_command(make_app())
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", with_blocks("yaml"), ids=name_of)
def test_the_jobs_of_a_page_are_valid(page: Path) -> None:
    for text in blocks(page, "yaml"):
        documents = list(yaml.safe_load_all(text))
        if any(isinstance(document, dict) and document.get("kind") == "TFJob" for document in documents):
            for manifest in parse_manifests(text):  # a job may come with the claim that it needs
                assert manifest.obj["kind"] == "PersistentVolumeClaim" or validate_manifest(manifest.obj) == ()


@pytest.mark.parametrize("page", with_blocks("python"), ids=name_of)
def test_the_python_of_a_page_compiles(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, str(page), "exec")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_block_says_what_it_is(page: Path) -> None:
    """In a tutorial it must be clear whether a block is meant to be run (docs/contributing/documentation.md)."""
    languages = {language for language, _ in _BLOCK.findall(page.read_text())}
    assert languages <= (LANGUAGES - {""} if page in TUTORIALS else LANGUAGES)


def test_the_targets_of_make_that_the_readme_names_exist() -> None:
    named = re.findall(r"^make (\w+)", "\n".join(blocks(ROOT / "README.md", "sh")), re.MULTILINE)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named == ["run", "test"]
    assert set(named) <= set(targets)
