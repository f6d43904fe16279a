"""No module imports, by whatever way, a module that imports it: each can be read after those that it uses."""

from pathlib import Path

import pytest

from tests.support.import_graph import circles, import_graph

PACKAGE = Path(__file__).resolve().parents[2] / "tfoperator"


def test_imports_have_one_direction() -> None:
    described = [" and ".join(circle) for circle in circles(import_graph(PACKAGE))]
    assert not described, "these modules import each other, so give them one direction: " + "; ".join(described)


SOURCES = {
    "__init__.py": "from app.top import run\n",
    "top.py": "from app import middle, text\n",
    "middle.py": "from __future__ import annotations\nimport app.low\n\ndef f():\n    from app.far.end import last\n",
    "low.py": "import os\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from app.far import end\n",
    "text.py": "",
    "far/__init__.py": "",
    "far/end.py": "last = 1\n",
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"far/end.py": "def f():\n    from app.middle import f\n"}, [["app.far.end", "app.low", "app.middle"]]),
        ({"far/end.py": "import app.low\n", "text.py": "from app import top\n"},
         [["app.far.end", "app.low"], ["app.text", "app.top"]]),
        ({"text.py": "from app import run\n"}, [["app", "app.text", "app.top"]]),
    ],
)  # fmt: skip
def test_a_circle_is_found_in_functions_and_in_what_type_checkers_read(
    tmp_path: Path, changed: dict[str, str], expected: list[list[str]]
) -> None:
    for name, source in (SOURCES | changed).items():
        path = tmp_path / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert circles(import_graph(tmp_path / "app")) == expected
