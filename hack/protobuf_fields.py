"""Writes how the built-in kinds look in protobuf, by the published Go types.

python hack/protobuf_fields.py     writes the API server's table, and the samples that its reader is tested with

hack/gomod/kubernetes/protobufs reads the types, which needs Go and the modules that `make controlplane` fetches.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack import gobuild

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tfoperator/local/apiserver/http/protobuf_fields.json"
SAMPLES = ROOT / "tests/unit/local/apiserver/http/protobuf_samples.jsonl"


def main() -> int:
    """Write both files; returns the exit code."""
    try:
        for target, arguments in ((TABLE, ()), (SAMPLES, ("samples",))):
            target.write_text(gobuild.run("kubernetes", "./protobufs", *arguments))
    except gobuild.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
