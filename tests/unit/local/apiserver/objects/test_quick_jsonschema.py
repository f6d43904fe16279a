"""The embedded API server starts without compiling a grammar that nothing asks for."""

import subprocess
import sys

PROGRAM = """
import importlib.util, sys
import tfoperator.local.apiserver.server
assert "jsonschema" in sys.modules
assert "rfc3987_syntax" not in sys.modules
assert importlib.util.find_spec("rfc3987_syntax") is not None, "others can't import it any more"
"""


def test_no_grammar_of_iris_is_compiled_and_others_may_still_import_it() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
