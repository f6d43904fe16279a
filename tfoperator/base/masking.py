r"""Masks secrets in texts that are quoted: log lines in a report, and answers for agents. Pure.

Readers of a quoted text did not ask for the whole text, and they may pass it on: into an issue, a chat, or the context
of an agent. So a quoted text does not contain secrets that can be recognized: by their form (a private key, a token of
a well-known service), by the name before them (`DB_PASSWORD=`, `"apiKey": "`, `--token`), or by their place (the user,
the password and the query of a URL). These rules do not recognize every secret.

The time is linear in the length of the text: the code searches only for fixed words, and tries an expression only at a
word that it has found. A text must be plain (`tfoperator.base.controlchars.plain_text`), because an escape
sequence inside of a secret hides it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest

from tfoperator.base.urls import with_shown_urls

MASK = "<masked>"
"""The replacement of a secret."""


_TOKENS = (
    (("eyJ",), r"(?<![\w-]eyJ)[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),  # JSON Web Tokens, such as tokens of service accounts
    (("AKIA", "ASIA"), r"[0-9A-Z]{16}\b"),  # AWS
    (("ya29",), r"\.[\w-]{20,}"),  # Google (this and the next two)
    (("AIza",), r"[\w-]{30,}"),
    (("GOCSPX-",), r"[\w-]{20,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "[0-9A-Za-z]{20,}"),  # GitHub (this and the next)
    (("github_pat_",), r"\w{20,}"),
    (("glpat-",), r"[\w-]{20,}"),  # GitLab
    (("hf_",), "[0-9A-Za-z]{20,}"),  # Hugging Face
    (("sk-",), r"(?=[\w-]{0,60}\d)[\w-]{20,}"),  # interfaces of language models
    (("sk_live_", "sk_test_", "rk_live_", "rk_test_"), "[0-9A-Za-z]{16,}"),  # payments
    (("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-"), r"[\w-]{10,}"),  # Slack
    (("pypi-", "npm_", "dckr_pat_"), r"[\w-]{30,}"),  # registries of packages and images
    (("dapi",), r"[0-9a-f]{32}\b"),  # Databricks
)
"""Beginnings of tokens, with a pattern for the rest. No letter, digit or underscore precedes a beginning."""
_BEGINNINGS = tuple(beginning for beginnings, _ in _TOKENS for beginning in beginnings)
_TOKEN = re.compile("|".join(rf"{word}(?<!\w{word}){rest}" for beginnings, rest in _TOKENS for word in beginnings))

_NAME = (
    r"password|passwd|passphrase|_pass(?![a-z])|secret|token|credentials?|sharedaccesssignature|client-key-data"
    r"|(?:api|private|account|shared[_-]?access|signing|encryption)[_-]?key|access[_-]?key(?:[_-]?id)?"
)
"""The end of the name of a secret, in lower case."""
_WORD = re.compile(rf"{_NAME}|auth(?<=[\"']auth)(?=\\{{0,4}}[\"'])|authorization|cookie|bearer|basic")
"""A word before a secret, in lower case."""
_STEMS = ("pass", "secret", "token", "key", "credential", "auth", "cookie", "sharedaccess", "bearer", "basic")
"""Each word before a secret has one of these parts. A search for these parts is twenty times faster than for the words.
"""
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

_QUOTED = r"\\+[\"'][^\"'\\\n]+|\"(?:[^\"\\\n]|\\.)+|'(?:[^'\\\n]|\\.)+"
_NEXT = r"(?=[^\s\"'])(?![\w.-]{1,40}[=:])"
"""A value continues after a comma, an ampersand or a bracket, unless another name with its value (`user=`) begins
there.
"""
_VALUE = rf"(?P<value>{_QUOTED}|(?:[^\s\"',;&)\]}}\\]|[,;&)\]}}\\]{_NEXT})+)"
_GAP = r"[ \t]{0,3}"
_SEPARATOR = rf"\\{{0,4}}[\"']?{_GAP}(?::=|=>|[=:]){_GAP}"

_AFTER_NAME = re.compile(rf"(?P<before>{_SEPARATOR}(?:[|>][+-]?[ \t]*\n[ \t]+)?){_VALUE}")
_AFTER_OPTION = re.compile(rf"[ \t]{{1,3}}(?!-){_VALUE}")
_AFTER_ITEM = re.compile(rf"[\"'],[ \t]?(?=[\"']){_VALUE}")
_AFTER_VARIABLE = re.compile(rf"[\"']?,?\s{{1,40}}[\"']?value[\"']?{_GAP}[:=]{_GAP}{_VALUE}", re.IGNORECASE)
_AFTER_HEADER = re.compile(
    rf"{_SEPARATOR}(?=(?:bearer|basic|token|digest|negotiate)[ \t]|[\"'\\]|(?![A-Za-z]?[a-z]{{0,40}}(?:[ \t\n]|\Z)))"
    rf"(?P<value>{_QUOTED}|[^\n\"']+)",
    re.IGNORECASE,
)
"""Matches the value of a header up to the end of its line, but not the value in a sentence: `authorization: denied`."""
_AFTER_SCHEME = re.compile(r"[ \t]{1,3}(?P<value>[\w.~+/-]{4,}=*)")
_PLACES = (
    (_AFTER_OPTION, re.compile(r"(?<![\w-])--[\w-]*$")),
    (_AFTER_ITEM, re.compile(r"(?:--|\([\"'])[\w.-]*$")),
    (_AFTER_VARIABLE, re.compile(rf"name[\"']?{_GAP}[:=]{_GAP}[\"']?[\w.-]*$", re.IGNORECASE)),
)
"""Pairs of expressions for a value that does not follow `name=` directly, as in `--token VALUE`. The first matches from
the end of the name to the value, and the second matches the text before the end of the name.
"""
_BEFORE = 80
"""The maximum number of characters of a name: only so many characters before the end of a name are searched."""

_ORDINARY = re.compile(
    r"[-+]?[0-9.]{1,7}(?:e[-+]?[0-9]{1,3})?"  # a number of tokens, and not a password
    r"|<[^<>\s]{1,24}>|\[[A-Z]{2,8}\]"  # words of a language model's vocabulary, and MASK
    r"|none|null|true|false|str|bool|int|float|bytes|string|object|optional|required|missing|invalid|empty|unset",
    re.IGNORECASE,
)
_PROSE = re.compile(r"[A-Za-z]?[a-z]{0,40}")
_SHORTEST = 4
"""The minimum number of characters of a secret without quotation marks."""

_KEY_EDGE = re.compile(r"(?:-----|---- )(?P<edge>BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?(?: ----|-----)")
_KEY_BODY = re.compile(
    r"(?:(?:\s|\\[nr])*+(?:(?:Proc-Type|DEK-Info):[^\n]*|[A-Za-z0-9+/]{16,}={0,2}(?!\w)))*"
    r"(?:\n(?![a-z]+(?:\n|\Z))[A-Za-z0-9+/]{1,15}={0,2}(?=\n|\Z))?"  # a line that was cut
)
_LONGEST_KEY = 16 * 1024
"""The maximum number of characters of a private key: an RSA key of 16,384 bits has 12,800 characters."""
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]+={0,2}\s*")
_SECRET_NAME = re.compile(rf"(?:{_NAME})$")


def masked(text: str) -> str:
    """Return the plain text with `<masked>` in the place of each secret that is recognized.

    A private key of several lines becomes a single word. The other lines stay.
    """
    text = without_private_keys(text)
    text = with_shown_urls(text)
    if any(map(text.__contains__, _BEGINNINGS)):
        text = _TOKEN.sub(MASK, text)
    return _without_assigned(text)


def without_private_keys(text: str, *, keep_line_ends: bool = False) -> str:
    """Return the plain text with `<masked>` in the place of each private key, and no other changes.

    With `keep_line_ends`, the line ends of a key stay, so each other line keeps its number.
    """
    return _without_keys(text, keep_line_ends) if "PRIVATE KEY" in text else text


def masked_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines with masked secrets; a secret may begin in a line and end in a later line."""
    found = tuple(lines)
    return tuple(masked("\n".join(found)).split("\n")) if found else ()


def is_secret_name(name: str) -> bool:
    """Return whether the value of a variable, a parameter or an option with this name is a secret."""
    return _SECRET_NAME.search(_lower(name)) is not None


def _lower(text: str) -> str:
    """Return the text with its ASCII letters in lower case; each character keeps its position."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def _without_assigned(text: str) -> str:
    """Return the text with `<masked>` in place of each value that follows the name of a secret, as in `password=`."""
    lowered = _lower(text)
    if not any(map(lowered.__contains__, _STEMS)):
        return text
    parts: list[str] = []
    position = 0
    for word in _WORD.finditer(lowered):
        found = _value_after(text, word) if word.start() >= position else None
        if found is None or _is_ordinary(found, word[0]):
            continue
        value = found["value"]
        quotes = len(value) - len(value.lstrip("\\\"'"))
        parts += text[position : found.start("value") + quotes], MASK
        position = found.end()
    return "".join((*parts, text[position:])) if parts else text


def _value_after(text: str, word: re.Match[str]) -> re.Match[str] | None:
    """Return the match of the value that follows `word`, such as `password`; None if no value follows."""
    if word[0] in ("bearer", "basic"):
        inside = word.start() > 0 and text[word.start() - 1].isalnum()
        return None if inside else _AFTER_SCHEME.match(text, word.end())
    if word[0] in ("authorization", "cookie"):
        return _AFTER_HEADER.match(text, word.end())
    if word[0] == "_pass" and not text[word.start() - 1 : word.end()].isupper():
        return None  # part of a longer word, such as `forward_pass`
    found = _AFTER_NAME.match(text, word.end())
    if found is not None:
        return found
    for after, before in _PLACES:
        found = after.match(text, word.end())
        if found is not None and before.search(text[max(word.start() - _BEFORE, 0) : word.start()]):
            return found
    return None


def _is_ordinary(found: re.Match[str], word: str) -> bool:
    """Return whether a value is no secret: a number, a word such as `none` or `string`, or the rest of a sentence."""
    value = found["value"]
    bare = value.lstrip("\\\"'")
    if not bare or _ORDINARY.fullmatch(bare):
        return True
    if bare != value or word in ("authorization", "cookie"):
        return False
    if len(value) < _SHORTEST:
        return True
    if word in ("bearer", "basic"):
        return _PROSE.fullmatch(value) is not None
    after = found.string[found.end() : found.end() + 2]
    goes_on = len(after) == 2 and after[0] == " " and after[1].isalpha()
    is_sentence = goes_on and found.string[found.start("value") - 2 : found.start("value")] == ": "
    return is_sentence and _PROSE.fullmatch(value) is not None


def _without_keys(text: str, keep_line_ends: bool) -> str:
    """Return the text with `<masked>` in place of each private key.

    A key ends at its END line. If this line is missing, the key ends before the first line that does not look like a
    part of a key.
    """

    def mask(key: str) -> str:
        return MASK + "\n" * key.count("\n") if keep_line_ends else MASK

    parts: list[str] = []
    position = 0
    edges = list(_KEY_EDGE.finditer(text))
    for edge, after in zip_longest(edges, edges[1:]):
        if edge.start() < position:
            continue
        between = text[position : edge.start()]
        position = edge.end()
        if edge["edge"] == "END":  # the key begins before the text, as in the tail of a log
            rest = _without_last_key_lines(between)
            if keep_line_ends and not between.startswith(rest):  # the text before the END line has no line end
                rest = between
            parts += rest, mask(between[len(rest) :])
            continue
        is_whole = after is not None and after["edge"] == "END" and after.start() - edge.end() < _LONGEST_KEY
        body = after if is_whole else _KEY_BODY.match(text, edge.end(), edge.end() + _LONGEST_KEY)
        begin, position = position, body.end() if body is not None else position
        parts += between, mask(text[begin:position])
    return "".join((*parts, text[position:]))


def _without_last_key_lines(text: str) -> str:
    lines = text.split("\n")
    if not lines[-1]:
        del lines[-1]
    while lines and _KEY_LINE.fullmatch(lines[-1]):
        del lines[-1]
    return "".join(f"{line}\n" for line in lines)
