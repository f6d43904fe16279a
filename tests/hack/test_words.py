"""The check of sentences: what it finds, what it leaves out, and its list of exceptions, which only becomes shorter."""

from pathlib import Path
from typing import Any

import pytest

from hack.words import Kind, Source, find, format_allowed, main, markdown, parse_allowed, python, read, sentences_of

FOUND = [
    (Kind.BEGINS, "What a job waits for is in its conditions."),
    (Kind.BEGINS, "Whatever is started is joined."),
    (Kind.BEGINS, "Who deletes a job deletes its pods."),
    (Kind.BEGINS, "**What is public**: a name without an underscore."),
    (Kind.THAT_OF, "The status has the time of the chief or that of worker 0."),
    (Kind.THAT_OF, "Those of PostgreSQL refuse long texts."),
    (Kind.TELLS, "Conditions say what the job waits for."),
    (Kind.TELLS, "The annotation `example.com/keep` tells the operator to wait."),
    (Kind.TELLS, "A pod is not told of the change."),
    (Kind.TELLS, "`status` says so."),
    (Kind.TELLS, "It shows the log lines and says what to try."),
    (Kind.TELLS, "A manifest can't say this."),
    (Kind.TELLS, "The kubelet keeps the end of the line, which said that it had failed."),
    (Kind.TELLS, "X, as MultiKueue tells: X"),
    (Kind.NEGATED, "No clock of a node makes a stall of a job."),
    (Kind.NEGATED, "The host has a service, and no pod is made before it."),
    (Kind.NEGATED, "Nothing that a step writes passes through Argo."),
    (Kind.NEGATED, "The retry is safe: none of these calls changes an object."),
    (Kind.NEGATED, "Neither Chief nor Worker decides."),
    (Kind.ONE, "One that fails frees its machines."),
    (Kind.ONE, "The pod replaces an older one."),
    (Kind.ONE, "Each job has a service; large jobs don't need one."),
    (Kind.ONE, "The page shows the last ones first."),
    (Kind.ONE, "A job without a chief needs one, because nobody else decides."),
]

NOT_FOUND = [
    "What does the operator need?",
    "The page shows what a job waits for.",
    "You say which job you want.",
    "People who run jobs say so.",
    "A person that says no is asked again.",
    "The report contains what users said.",
    "It is easy to tell what failed.",
    "Colours tell two runs apart.",
    "The job continues, as is said above.",
    "No YAML, no cluster, no rights.",
    "No longer used by Kubernetes.",
    "No system call if it is already set.",
    "It costs no call, and no time that could be measured.",
    "The operator makes pods only after the service exists.",
    "One replica leads, and one of the others waits.",
    "At least one that is ready must stay.",
    "One pod at a time starts again, one by one.",
    "Two replicas, of which one leads.",
    "`What` is the name of the variable.",
    'The message "No pod is made before it says so" is gone.',
    "The command `tell one that fails` stays.",
]


def kinds(text: str) -> set[Kind]:
    return {finding.kind for finding in find([("docs/page.md", text)]).findings}


@pytest.mark.parametrize(("kind", "sentence"), FOUND)
def test_a_sentence_that_is_hard_to_read_is_found(kind: Kind, sentence: str) -> None:
    assert kind in kinds(sentence)


@pytest.mark.parametrize("sentence", NOT_FOUND)
def test_a_plain_sentence_is_not_found(sentence: str) -> None:
    assert kinds(sentence) == set()


PAGE = """\
# What a heading may do

A paragraph [with
a link](other.md#that-of). What begins
the second sentence?

```sh
echo What is in a block of code
```

- the first item
  goes on
- the second item here

| what is there | where is it |
|---|---|
| a cell of words | `code` and words |
<!-- What is
commented out -->
"""


def texts(passages: Any) -> list[tuple[int, str]]:
    return [(sentence.line, sentence.text) for passage in passages for sentence in sentences_of(passage)]


def test_a_page_is_read_without_headings_code_and_comments() -> None:
    assert texts(markdown(PAGE)) == [
        (3, "A paragraph with a link."),
        (4, "What begins the second sentence?"),
        (11, "the first item goes on"),
        (13, "the second item here"),
        (15, "what is there"),
        (15, "where is it"),
        (17, "a cell of words"),
        (17, "`code` and words"),
    ]


def test_headings_of_messages_are_read_and_generated_pages_are_not() -> None:
    assert [passage.text for passage in read("docs/messages.md", "### is no such file")] == ["is no such file"]
    assert list(read("docs/fields.md", "<!-- Made by hack/generate.py -->\n\nWhat is written by a program.")) == []


MODULE = '''\
"""The first line of it.

    what = is_code(here)

- an item of
  two lines
"""

LIMIT = 3  # seconds in a row
"""An attribute has a docstring."""

# a comment that
# goes on
url = "https://example.com/#no comment here"
raise ValueError(
    "a message in "
    f"{LIMIT} parts of it"
)
text = """not a docstring at all"""
x = 1  # noqa: E501 is a directive
'''


def test_docstrings_comments_and_messages_of_a_module_are_read() -> None:
    sentences = [
        (sentence.source, sentence.line, sentence.text)
        for passage in python(MODULE, messages=True)
        for sentence in sentences_of(passage)
    ]
    assert sentences == [
        (Source.DOCSTRINGS, 1, "The first line of it."),
        (Source.DOCSTRINGS, 5, "an item of two lines"),
        (Source.COMMENTS, 9, "seconds in a row"),
        (Source.DOCSTRINGS, 10, "An attribute has a docstring."),
        (Source.COMMENTS, 12, "a comment that goes on"),
        (Source.MESSAGES, 14, "https://example.com/#no comment here"),
        (Source.MESSAGES, 16, "a message in X parts of it"),
    ]
    assert not [passage for passage in python(MODULE, messages=False) if passage.source is Source.MESSAGES]


def test_texts_of_the_page_and_descriptions_of_fields_are_read() -> None:
    script = '// a comment of words\nh("p", {}, "a text of words", `another of ${this.count} words`)'
    assert [passage.text for passage in read("tfoperator/ui/static/a.js", script)] == [
        "a comment of words",
        "a text of words",
        "another of X words",
    ]
    assert [passage.text for passage in read("a.html", "<p>a text of words</p>")] == ["a text of words"]
    assert [passage.text for passage in read("a.toml", 'name = "A name of words."')] == ["A name of words."]


def tree(root: Path, sentences: int, allowed: str) -> None:
    """Write a tree with so many sentences of one kind, and this list."""
    (root / "hack").mkdir(exist_ok=True)
    (root / "README.md").write_text("What it does is this.\n\n" * sentences)
    (root / "hack/words.txt").write_text(allowed)


@pytest.mark.parametrize(("allowed", "exit_code"), [("README.md begins 1\n", 1), ("README.md begins 2\n", 0), ("", 1)])
def test_a_file_may_have_as_many_findings_as_its_number(
    tmp_path: Path, capsys: Any, allowed: str, exit_code: int
) -> None:
    tree(tmp_path, 2, allowed)
    assert main([], tmp_path) == exit_code
    assert ("README.md:3: begins: What it does is this." in capsys.readouterr().err) == bool(exit_code)


def test_fewer_findings_pass_and_accept_writes_the_smaller_number(tmp_path: Path, capsys: Any) -> None:
    tree(tmp_path, 1, "README.md begins 3\ndocs/gone.md one 2\n")
    assert main([], tmp_path) == 0
    assert "4 findings of hack/words.txt are gone" in capsys.readouterr().out
    assert main(["--accept"], tmp_path) == 0
    assert parse_allowed((tmp_path / "hack/words.txt").read_text()) == {("README.md", Kind.BEGINS): 1}


def test_accept_writes_no_larger_number(tmp_path: Path) -> None:
    tree(tmp_path, 2, "README.md begins 1\n")
    assert main(["--accept"], tmp_path) == 1
    assert (tmp_path / "hack/words.txt").read_text() == "README.md begins 1\n"


def test_findings_of_a_folder_and_the_table_are_printed(tmp_path: Path, capsys: Any) -> None:
    tree(tmp_path, 1, "")
    assert main(["README.md"], tmp_path) == 0
    assert capsys.readouterr().out == "README.md:1: begins: What it does is this.\n"
    assert main(["--count"], tmp_path) == 0
    assert "begins                     100.0         0.0" in capsys.readouterr().out


def test_a_list_is_read_as_it_is_written() -> None:
    numbers = {("b.md", Kind.ONE): 2, ("a.md", Kind.TELLS): 1, ("c.md", Kind.ONE): 0}
    assert parse_allowed(format_allowed(numbers)) == {("a.md", Kind.TELLS): 1, ("b.md", Kind.ONE): 2}
