"""The parts of jsonschema used here, imported without the grammar of IRIs, which no CRD needs.

If rfc3987-syntax is installed, as with Jupyter, jsonschema imports it, and that import compiles the grammar: more than
a second of CPU, most of the start of `tfoperator run`. jsonschema works without it if it is not installed, so it is
hidden while jsonschema is imported. A program that has imported jsonschema before keeps all of it; for others in this
process, the formats `iri` and `iri-reference` are then not checked, as jsonschema documents for a missing package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

_GRAMMAR_MODULE = "rfc3987_syntax"


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Make imports of the module fail in this block, as if it were not installed; unless it was imported before."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = cast(ModuleType, None)  # the import system's own mark of a module that must not be found
    try:
        yield
    finally:
        del sys.modules[module]


with _hidden(_GRAMMAR_MODULE):
    from jsonschema import Draft4Validator, FormatChecker, ValidationError

__all__ = ["Draft4Validator", "FormatChecker", "ValidationError"]
