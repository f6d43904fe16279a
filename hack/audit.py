"""Look for known vulnerabilities of locked dependencies, with pip-audit for every lock file.

    python -m hack.audit                          # PyPI's database
    python -m hack.audit --vulnerability-service osv

Exit code 0: the service knows all packages, and none of their vulnerabilities. 1: there are vulnerabilities, which the
command prints. 2: the service does not know all packages. In this case, pip-audit alone prints "No known
vulnerabilities found".
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from hack.lock import LOCKS, ROOT

AUDIT_SECONDS = 600.0


class Audit(msgspec.Struct, frozen=True):
    """The service's answer: how many packages it knew, their vulnerabilities, and the packages that it did not know."""

    known: int
    vulnerable: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0, 1 or 2, as above."""
        return 1 if self.vulnerable else 2 if self.unknown or not self.known else 0

    def describe(self) -> str:
        """For people."""
        lines = [f"{self.known} packages asked about, {len(self.vulnerable)} vulnerabilities known", *self.vulnerable]
        if self.unknown:
            lines.append(f"not asked about: {', '.join(self.unknown)}")
        if self.exit_code == 2:
            lines.append("the vulnerability service didn't answer for these: run this where it can be reached")
        return "\n".join(lines)


def read(report: dict[str, Any]) -> Audit:
    """Read pip-audit's JSON."""
    known_count, vulnerable, unknown = 0, [], []
    for dependency in report["dependencies"]:
        if "skip_reason" in dependency:
            unknown.append(str(dependency["name"]))
            continue
        known_count += 1
        for vulnerability in dependency["vulns"]:
            fixed = ", ".join(vulnerability["fix_versions"]) or "no version"
            vulnerable.append(f"{dependency['name']} {dependency['version']}: {vulnerability['id']}, fixed in {fixed}")
    return Audit(known_count, tuple(vulnerable), tuple(sorted(unknown)))


def ask(arguments: Sequence[str]) -> Audit | str:
    """Run pip-audit; return its answer, or the reason if the answer can't be read."""
    command = [
        sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip", "--progress-spinner=off",
        "--format=json", *(f"--requirement={lock.path}" for lock in LOCKS), *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=AUDIT_SECONDS)
    try:
        return read(json.loads(done.stdout))
    except ValueError:
        return done.stderr.strip()[-1000:] or f"pip-audit ended with {done.returncode} and said nothing"


def main(arguments: Sequence[str]) -> int:
    """Ask and print."""
    audit = ask(arguments)
    if isinstance(audit, str):
        print(
            f"the vulnerability service could not be asked; run this where it can be reached:\n{audit}", file=sys.stderr
        )
        return 2
    print(audit.describe())
    return audit.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
