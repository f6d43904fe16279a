"""Find sentences that a reader has to read twice: in pages, docstrings, comments, messages and the page's texts.

    python -m hack.words                 # as `make lint` does: fails where a file has more findings than hack/words.txt
    python -m hack.words docs README.md  # print every finding of these files and folders
    python -m hack.words --count         # findings per 100 sentences
    python -m hack.words --accept        # write smaller numbers into hack/words.txt; the command refuses larger numbers

CONTRIBUTING.md ("How we write") has the rules and examples. The patterns are narrow: the check leaves out inline code,
code blocks, quotations, headings and generated pages, and a sentence that it does not find can still be a bad sentence.
"""

from __future__ import annotations

import argparse
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "hack/words.txt"
HEADER = """\
# The findings of `python -m hack.words` that are still in the tree: file, kind, number. Numbers only become smaller:
# `python -m hack.words --accept` writes them. If you move a file, change its path here by hand.
"""

PATTERNS = (
    *("*.md", "docs/**/*.md", "examples/**/*.md"),
    *("tfoperator/**/*.py", "hack/**/*.py", "tests/**/*.py"),
    *("tfoperator/ui/static/*.js", "tfoperator/ui/static/*.html", "tfoperator/**/*.toml"),
)
"""The files that are read, as globs from the root of the tree."""

GENERATED = "<!-- Made by "
"""The beginning of a page that a program writes: its words are in that program's sources."""

QUOTING = ("docs/messages.md",)
"""Pages whose headings are messages of the program. In other pages, links lead to the headings."""

MIN_WORDS = 3
"""Shorter texts are not sentences."""


class Kind(StrEnum):
    """A kind of sentence that is hard to read, in the order of the table."""

    BEGINS = "begins"
    THAT_OF = "that-of"
    TELLS = "tells"
    NEGATED = "negated"
    ONE = "one"


ADVICE = {
    Kind.BEGINS: "begins with What, Whatever or Who: begin with the noun",
    Kind.THAT_OF: '"that of" or "those of": repeat the noun',
    Kind.TELLS: "a thing says, tells or is told: it shows, records, reports, contains, names",
    Kind.NEGATED: 'a negated subject: "no pod is made before" becomes "makes pods only after"',
    Kind.ONE: '"one" stands for a thing: repeat the noun',
}


class Source(StrEnum):
    """Where a text is from."""

    DOCS = "docs"
    DOCSTRINGS = "docstrings"
    COMMENTS = "comments"
    MESSAGES = "messages"


class Passage(msgspec.Struct, frozen=True):
    """A paragraph, an item of a list, a cell of a table, a comment or a text of the program: its lines, in order."""

    source: Source
    lines: tuple[tuple[int, str], ...]
    """The number of each line in its file, from 1, and its text."""


class Sentence(msgspec.Struct, frozen=True):
    """A sentence of a file; `plain` has it without code and quotations, with as many characters."""

    source: Source
    line: int
    text: str
    plain: str


class Finding(msgspec.Struct, frozen=True):
    """A sentence of a kind that is hard to read."""

    path: str
    line: int
    kind: Kind
    source: Source
    text: str

    def describe(self) -> str:
        """For people: the place, the kind and the sentence."""
        return f"{self.path}:{self.line}: {self.kind}: {self.text}"


class Reading(msgspec.Struct, frozen=True):
    """The findings of files, and the number of sentences that each source has there."""

    findings: tuple[Finding, ...]
    sentences: Mapping[Source, int]

    def numbers(self) -> Counter[tuple[str, Kind]]:
        """Return the number of findings of each file and kind."""
        return Counter((finding.path, finding.kind) for finding in self.findings)


# Sentences ------------------------------------------------------------------------------------------------------------

_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_QUOTATION = re.compile(r'"[^"]{1,300}"|“[^”]{1,300}”')
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]*\)")
_END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_]*[A-Z0-9])")
_WORD = re.compile(r"[\w'’-]+")


def sentences_of(passage: Passage) -> Iterator[Sentence]:
    """Split a passage into its sentences; texts of fewer than three words are left out."""
    # The addresses of links contain no line breaks, so the number of lines stays.
    text = _LINK.sub(r"\1", "\n".join(" ".join(line.split()) for _, line in passage.lines))
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    text = text.replace("\n", " ")
    plain = _QUOTATION.sub(_masked, _CODE.sub(_masked, text)).replace("*", " ")
    ends = [0, *(match.end() for match in _END.finditer(plain)), len(plain)]
    for start, end in pairwise(ends):
        if len(_WORD.findall(plain[start:end])) >= MIN_WORDS:
            line = passage.lines[bisect_right(starts, start) - 1][0]
            yield Sentence(passage.source, line, text[start:end].strip(" *"), plain[start:end].strip())


def _masked(match: re.Match[str]) -> str:
    """Return a word of as many characters, which is a thing."""
    return "X" * len(match[0])


# Patterns -------------------------------------------------------------------------------------------------------------

_BEGINS = re.compile(r"\W*(?:What|Whatever|Who|Whoever)\b")
_THAT_OF = re.compile(r"\b(?:[Tt]hat|[Tt]hose) of\b")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAYING = re.compile(r"\b(?:say|says|said|tell|tells|told)\b", re.IGNORECASE)
_TOKEN = re.compile(r"[\w'’-]+|[^\w\s]")
_AUXILIARIES = _words(
    "is are was were be been being has have had can cannot can't could may might must will would should shall "
    "do does did don't doesn't didn't isn't aren't wasn't not never always also only then already still now often "
    "too alone itself themselves both all first thus"
)
_BASE_AUXILIARIES = _words(
    "can cannot can't could may might must will would should shall do does did doesn't didn't don't"
)
_PEOPLE = _words(
    "i you we he she they who whoever people person persons user users reader readers engineer engineers author "
    "authors maintainer maintainers administrator administrators developer developers somebody someone nobody "
    "anybody everybody everyone anyone man woman visitor visitors team teams owner owners"
)
_NO_SUBJECTS = _words(
    "to as than the a an of in on at by for from with without when if where how why because since until unless so "
    "while before after about let lets like once there"
)
_JOINING = _words("and or but nor , ) ; : -- – —")
_RELATIVE = _words("that which")
_NO_PLURALS = _words("this is as has was does its his always perhaps us thus less")


def _lets_a_thing_tell(plain: str) -> bool:
    """Whether the subject of "say" or "tell", active or passive, is a thing."""
    if not _SAYING.search(plain):
        return False
    tokens = _TOKEN.findall(plain)
    return any(_is_of_a_thing(tokens, at) for at, token in enumerate(tokens) if _SAYING.fullmatch(token))


def _is_of_a_thing(tokens: Sequence[str], at: int) -> bool:
    """Whether the subject of the verb at this place is a thing; False where it is not certain."""
    verb = tokens[at].lower()
    if "apart" in tokens[at + 1 : at + 6]:
        return False
    before = at - 1
    while before >= 0 and tokens[before].lower() in _AUXILIARIES:
        before -= 1
    if before < 0:
        return False
    subject, helpers = tokens[before].lower(), {token.lower() for token in tokens[before + 1 : at]}
    earlier = {token.lower() for token in tokens[:before]}
    if subject in _PEOPLE or subject in _NO_SUBJECTS:
        return False
    if verb in ("say", "tell") and not helpers & _BASE_AUXILIARIES:
        return (subject in _RELATIVE or _is_plural(tokens[before])) and not _PEOPLE & earlier
    if subject in _RELATIVE:
        return not _PEOPLE & {token.lower() for token in tokens[max(0, before - 4) : before]}
    return not _PEOPLE & earlier if subject in _JOINING else subject[-1].isalnum()


def _is_plural(word: str) -> bool:
    return set(word) == {"X"} or (word.endswith("s") and len(word) > 3 and word.lower() not in _NO_PLURALS)


_VERB = (
    r"(?:is|are|was|were|has|have|had|can|cannot|can't|may|might|must|will|would|should|could|does|do|did|"
    r"needs|gets|makes|takes|waits|reads|sees|goes|comes|knows|asks|stays|starts|fails|leads|begins|uses|holds|"
    r"writes|loses|lets|keeps|shows|says|tells|finds|stops|learns|becomes|gives|means|belongs|remains|costs|leaves|"
    r"appears|exists|depends|happens|hears|follows|touches|blocks|hides|survives|prevents|outlives|overdraws|passes|"
    r"reaches|removes|sends|serves|wins|works|calls|carries|contains|creates|deletes|decides)\b"
)


def _negated(clause: str, left_out: str) -> str:
    """Return the pattern of a clause whose subject is negated, without these words between the subject and its verb."""
    word = rf"(?!(?:{left_out})\b)[\w'’-]+"
    adverb = r"(?:longer|matter|more|less|fewer|sooner|later|doubt|wonder|need)\b"
    return (
        rf"{clause}(?:no (?!{adverb})(?:{word} ){{1,7}}?{_VERB}"
        rf"|(?:nothing|nobody|no one)(?: (?!(?:to|but)\b){word}){{0,5}}? {_VERB}"
        rf"|none of (?:{word} ){{1,5}}?{_VERB}"
        rf"|neither (?:{word},? ){{1,8}}?{_VERB})"
    )


_CONDITION = "if|when|where|unless|whether|because|until|while|so|but|as"
_NEGATED = re.compile(
    _negated(r"(?:^\W*|[;:] )", _CONDITION)
    # After a comma "no" may go on with a list: "it costs no call, and no time that could be measured".
    + "|"
    + _negated(r", (?:and|but|so|for|since|because) ", f"{_CONDITION}|that|which|who"),
    re.IGNORECASE,
)

_AFTER_ONE = (
    r"(?=$|[.,;:)?!]|\s(?:that|which|who|whose|of|in|on|at|with|without|from|for|to|by|as|and|or|but|than|before|after|"
    r"if|when|where|while|until|it|they|we|you|he|is|was|are|were|has|had|can|may|must|will|does|so|too|again|also|"
    r"fails|leads|ends|waits|gets|needs|runs|starts|stays|only|alone)\b)"
)
_ONE = re.compile(
    r"\b(?:"
    r"(?:an?|the|that|this|each|every|another|other|(?<!of )which|such|its|their|our|your|whose)(?: [\w'’-]+)? one"
    + _AFTER_ONE
    + r"|(?:older|newer|new|old|other|own|same|first|last|next|later|earlier|these|those|larger|smaller|good|"
    r"bad|whole|live|real) one"
    + _AFTER_ONE
    + r"|(?<!no )(?<!any )(?<!every )(?<!some )(?<!least )(?<!than )(?<!exactly )(?<!only )(?<!most )one "
    r"(?:that|which|whose)"
    r"|ones|(?:has|have|had|gets?|got|needs?|makes?|made|without|wants?|gives?|given|is|was|of|for) one(?=[.,;)]|$)"
    r")(?!\w)",
    re.IGNORECASE,
)


def kinds_of(plain: str) -> Iterator[Kind]:
    """Find the kinds of a sentence without code and quotations."""
    if _BEGINS.match(plain) and not plain.rstrip(" *_)\"'").endswith("?"):
        yield Kind.BEGINS
    if _THAT_OF.search(plain):
        yield Kind.THAT_OF
    if _lets_a_thing_tell(plain):
        yield Kind.TELLS
    if _NEGATED.search(plain):
        yield Kind.NEGATED
    if _ONE.search(plain):
        yield Kind.ONE


# Passages -------------------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.) +")
_RULE = re.compile(r"[-:|\s]+")


def markdown(text: str, *, headings: bool = False) -> Iterator[Passage]:
    """Find the passages of a page: paragraphs, items and cells; its headings where they are asked for."""
    if text.startswith(GENERATED):
        return
    lines: list[tuple[int, str]] = []
    fenced = commented = False
    for number, line in enumerate(text.splitlines(), 1):
        opens = _FENCE.match(line) is not None
        commented = commented or line.lstrip().startswith("<!--")
        heading, cells = line.startswith("#"), line.lstrip().startswith("|")
        outside = not (opens or fenced or commented)
        if lines and (not outside or heading or cells or not line.strip() or _ITEM.match(line)):
            yield Passage(Source.DOCS, tuple(lines))
            lines = []
        if outside and cells and not _RULE.fullmatch(line):
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                yield Passage(Source.DOCS, ((number, cell),))
        elif outside and heading and headings:
            yield Passage(Source.DOCS, ((number, line.lstrip("# ")),))
        elif outside and not cells and not heading and line.strip():
            lines.append((number, _ITEM.sub("", line.lstrip("> "), count=1)))
        fenced = fenced != opens
        commented = commented and "-->" not in line
    if lines:
        yield Passage(Source.DOCS, tuple(lines))


_PYTHON = re.compile(
    r'(?P<comment>#[^\n]*)|[rbfuRBFU]{0,2}(?:(?P<long>"""|\'\'\')(?P<words>(?:\\.|(?!(?P=long)).)*)(?P=long)'
    r'|"(?P<double>(?:\\.|[^"\\\n])*)"|\'(?P<single>(?:\\.|[^\'\\\n])*)\')',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"#(?:!|:? ?(?:noqa|type:|fmt:|pragma|pylint))")


def python(text: str, *, messages: bool) -> Iterator[Passage]:
    """Find docstrings and comments of a module; with `messages` every other text of three words, too.

    Strings that stand side by side are one text.
    """
    newlines = [match.start() for match in re.finditer("\n", text)]
    comment: list[tuple[int, str]] = []
    message: list[tuple[int, str]] = []
    ended = 0
    for match in _PYTHON.finditer(text):
        number = bisect_right(newlines, match.start() - 1) + 1
        between, ended = text[ended : match.start()], match.end()
        goes_on = not between.strip()
        if comment and not (goes_on and between.count("\n") <= 1 and match["comment"]):
            yield Passage(Source.COMMENTS, tuple(comment))
            comment = []
        if message and (not goes_on or match["comment"]):
            yield Passage(Source.MESSAGES, tuple(message))
            message = []
        if match["comment"]:
            if not _DIRECTIVE.match(match["comment"]):
                comment.append((number, match["comment"].lstrip("#: ")))
        elif match["long"]:
            before = text[: match.start()].rstrip()[-1:]
            if text[match.start() - 1 : match.start()] in ("", "\n", " ") and before not in (
                "(",
                ",",
                "=",
                "[",
                "+",
                "%",
            ):
                yield from _docstring(number, match["words"])
        elif messages:
            words = match["double"] if match["double"] is not None else match["single"]
            message.append((number, re.sub(r"\\[nt]", " ", re.sub(r"\{[^{}]*\}", "X", words))))
    if comment:
        yield Passage(Source.COMMENTS, tuple(comment))
    if message:
        yield Passage(Source.MESSAGES, tuple(message))


def _docstring(number: int, words: str) -> Iterator[Passage]:
    """Find the paragraphs and items of a docstring; indented blocks are code."""
    all_lines = words.splitlines()
    rest = [line for line in all_lines[1:] if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in rest), default=0)
    lines: list[tuple[int, str]] = []
    for at, line in enumerate(all_lines):
        own = line[indent:] if at else line
        is_code = own.startswith("    ") and not lines
        if lines and (not own.strip() or _ITEM.match(own)):
            yield Passage(Source.DOCSTRINGS, tuple(lines))
            lines = []
        if own.strip() and not is_code:
            lines.append((number + at, _ITEM.sub("", own, count=1)))
    if lines:
        yield Passage(Source.DOCSTRINGS, tuple(lines))


_SCRIPT = re.compile(
    r"/\*(?P<block>.*?)\*/|//(?P<line>[^\n]*)|\"(?P<text>(?:\\.|[^\"\\\n])*)\"|`(?P<template>[^`]*)`", re.DOTALL
)
_HTML = re.compile(r">(?P<text>[^<>{}]+)<")
_TOML = re.compile(r"^[\w\"-]+ = \"(?P<text>[^\"\n]*)\"$", re.MULTILINE)


def other(text: str, suffix: str) -> Iterator[Passage]:
    """Find the texts and comments of the page's files, and the descriptions of a TOML file."""
    pattern = {".js": _SCRIPT, ".html": _HTML, ".toml": _TOML}[suffix]
    for match in pattern.finditer(text):
        parts = {name: part for name, part in match.groupdict().items() if part is not None}
        [(name, words)] = parts.items()
        source = Source.COMMENTS if name in ("block", "line") else Source.MESSAGES
        words = re.sub(r"\$\{[^{}]*\}", "X", words).lstrip("* ")
        yield Passage(source, ((text.count("\n", 0, match.start()) + 1, words),))


def read(path: str, text: str) -> Iterator[Sentence]:
    """Read the sentences of a file, by its path from the root of the tree."""
    suffix = Path(path).suffix
    if suffix == ".md":
        passages = markdown(text, headings=path in QUOTING)
    elif suffix == ".py":
        passages = python(text, messages=path.startswith("tfoperator/"))
    else:
        passages = other(text, suffix)
    for passage in passages:
        yield from sentences_of(passage)


def find(files: Iterable[tuple[str, str]]) -> Reading:
    """Find the sentences that are hard to read in files, which are paths and texts."""
    findings: list[Finding] = []
    sentences: Counter[Source] = Counter()
    for path, text in files:
        for sentence in read(path, text):
            sentences[sentence.source] += 1
            for kind in kinds_of(sentence.plain):
                findings.append(Finding(path, sentence.line, kind, sentence.source, sentence.text))
    return Reading(tuple(findings), sentences)


# The list of exceptions -----------------------------------------------------------------------------------------------

Numbers = Mapping[tuple[str, Kind], int]
"""The number of findings of each file and kind."""


def parse_allowed(text: str) -> dict[tuple[str, Kind], int]:
    """Read hack/words.txt. Raises ValueError for a line that is not a path, a kind and a number."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {(path, Kind(kind)): int(number) for path, kind, number in rows}


def format_allowed(numbers: Numbers) -> str:
    """Write hack/words.txt."""
    rows = sorted((path, kind, number) for (path, kind), number in numbers.items() if number)
    return HEADER + "".join(f"{path} {kind} {number}\n" for path, kind, number in rows)


def too_many(found: Numbers, allowed: Numbers) -> list[tuple[str, Kind]]:
    """Return each file and kind that has more findings than it may have."""
    return sorted(place for place, number in found.items() if number > allowed.get(place, 0))


def gone(found: Numbers, allowed: Numbers) -> int:
    """Return how many findings of the list are no longer there."""
    return sum(max(0, number - found.get(place, 0)) for place, number in allowed.items())


def table(reading: Reading) -> str:
    """Return the findings per 100 sentences of each source, for people."""
    numbers = Counter((finding.kind, finding.source) for finding in reading.findings)
    lines = [f"{'per 100 sentences':20}" + "".join(f"{source:>12}" for source in Source)]
    lines.append(f"{'sentences':20}" + "".join(f"{reading.sentences.get(source, 0):>12,}" for source in Source))
    for kind in Kind:
        shares = [100 * numbers[kind, source] / max(1, reading.sentences.get(source, 0)) for source in Source]
        lines.append(f"{kind:20}" + "".join(f"{share:>12.1f}" for share in shares))
    return "\n".join(lines)


# The command ----------------------------------------------------------------------------------------------------------


def files_of(root: Path, only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Read the files of a tree that have prose; `only` limits them to these files and folders."""
    for path in sorted({path for pattern in PATTERNS for path in root.glob(pattern)}):
        name = path.relative_to(root).as_posix()
        if not only or any(name == prefix or name.startswith(f"{prefix}/") for prefix in only):
            yield name, path.read_text(encoding="utf-8")


def check(reading: Reading, allowed: Numbers) -> list[str]:
    """Return the lines that explain why the check fails; none where it passes."""
    lines: list[str] = []
    for place in too_many(reading.numbers(), allowed):
        path, kind = place
        lines.append(
            f"{path}: {reading.numbers()[place]} times {ADVICE[kind]}; hack/words.txt allows {allowed.get(place, 0)}"
        )
        lines += [f"  {finding.describe()}" for finding in reading.findings if (finding.path, finding.kind) == place]
    return [*lines, 'write the new sentences by CONTRIBUTING.md, "How we write"'] if lines else []


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; the exit code is 1 where a file has more findings than it may have."""
    parser = argparse.ArgumentParser(prog="python -m hack.words", description="Find sentences that are hard to read.")
    parser.add_argument("paths", nargs="*", help="print every finding of these files and folders")
    parser.add_argument("--count", action="store_true", help="print the findings per 100 sentences")
    parser.add_argument("--accept", action="store_true", help="write smaller numbers into hack/words.txt")
    options = parser.parse_args(arguments)
    only = [(root / path).resolve().relative_to(root).as_posix() for path in options.paths]
    reading = find(files_of(root, [] if only == ["."] else only))
    if options.count:
        print(table(reading))
        return 0
    if only:
        print("\n".join(finding.describe() for finding in reading.findings))
        return 0
    file = root / ALLOWED.relative_to(ROOT)
    allowed = parse_allowed(file.read_text(encoding="utf-8"))
    problems = check(reading, allowed)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    if options.accept:
        file.write_text(format_allowed(reading.numbers()), encoding="utf-8")
    elif fewer := gone(reading.numbers(), allowed):
        print(f"{fewer} findings of hack/words.txt are gone: python -m hack.words --accept lowers its numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
