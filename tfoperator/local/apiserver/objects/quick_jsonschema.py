"""What of jsonschema is used here, imported without the grammar of IRIs that no CRD needs.

Where rfc3987-syntax is installed, as with Jupyter, jsonschema imports it, and its import compiles that grammar: more
than a second of CPU, most of the start of `tfoperator run`. jsonschema does without it where it is not installed, so it
is hidden while jsonschema is imported. Whoever has imported jsonschema before keeps all of it; for others in this
process the formats `iri` and `iri-reference` are then not checked, as jsonschema documents it for a missing package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

_GRAMMAR = "rfc3987_syntax"


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """An import of the module fails meanwhile, as if it were not installed; not if it has been imported already."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = cast(ModuleType, None)  # the import system's own mark of a module that must not be found
    try:
        yield
    finally:
        del sys.modules[module]


with _hidden(_GRAMMAR):
    from jsonschema import Draft4Validator, FormatChecker, ValidationError

__all__ = ["Draft4Validator", "FormatChecker", "ValidationError"]
