"""Writes all generated files.

It generates the CRD in manifests/, docs/fields.md and docs/conditions.md from the TFJob types, docs/options.md from the
options of the operator, and files of the Helm chart from manifests/ (hack/chart.py).

python hack/generate.py            write the files
python hack/generate.py --check    check whether the files are up to date; exit 1 if a file is not
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack.chart import chart_files
from hack.conditions_page import conditions_markdown
from hack.fields import fields_markdown
from hack.options import options_markdown
from tfoperator.api.schema.crd import crd_yaml, open_templates_patch_yaml, versions_patch_yaml

ROOT = Path(__file__).resolve().parent.parent
HEADER = (
    "# Made by hack/generate.py from tfoperator/api; change the types or tfoperator/api/schema/fields.py instead.\n"
)


def generated() -> dict[Path, str]:
    """Return the content of each generated file, by its path."""
    return {
        ROOT / "manifests/base/crd.yaml": HEADER + crd_yaml(),
        ROOT / "manifests/components/webhook/crd-versions.yaml": HEADER + versions_patch_yaml(),
        ROOT / "manifests/components/open-templates/crd-spec.yaml": HEADER + open_templates_patch_yaml(),
        ROOT / "manifests/components/webhook-open-templates/crd-spec.yaml": HEADER
        + open_templates_patch_yaml(older=True),
        ROOT / "docs/fields.md": fields_markdown(),
        ROOT / "docs/options.md": options_markdown(),
        ROOT / "docs/conditions.md": conditions_markdown(),
        **chart_files(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if a file is out of date")
    check = parser.parse_args(argv).check
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is out of date: run python hack/generate.py", file=sys.stderr)
        else:
            path.write_text(generated()[path])
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
