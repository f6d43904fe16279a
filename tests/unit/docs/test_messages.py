"""docs/messages.md explains messages that the code still has, in the code's own words."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "messages.md"
HEADINGS = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
GAP = "…"


@cache
def package_text() -> str:
    """All texts of the package, docstrings aside, one a line; what is put into one is a gap."""
    return "\n".join(text for path in sorted((ROOT / "tfoperator").rglob("*.py")) for text in texts(path))


def texts(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in statements | inner:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_message_of_the_page_is_one_of_the_code(heading: str) -> None:
    pattern = ".*".join(re.escape(piece.strip()) for piece in heading.split(GAP))
    assert re.search(pattern, package_text()), heading


def test_the_page_has_messages_and_no_message_twice() -> None:
    assert len(HEADINGS) > 30
    assert len(set(HEADINGS)) == len(HEADINGS)
