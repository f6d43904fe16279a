from typing import Any

import pytest

from hack.audit import main, read

FINE = {"name": "idna", "version": "3.20", "vulns": []}
SKIPPED = {"name": "six", "skip_reason": "Dependency not found on PyPI and could not be audited: six (1.17.0)"}
VULNERABLE: dict[str, Any] = {
    "name": "idna", "version": "3.6", "vulns": [{"id": "PYSEC-2024-60", "fix_versions": ["3.7"], "aliases": []}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "exit_code", "text"),
    [
        ([FINE], 0, "1 packages asked about, 0 vulnerabilities known"),
        ([VULNERABLE, SKIPPED], 1, "idna 3.6: PYSEC-2024-60, fixed in 3.7"),
        ([FINE, SKIPPED], 2, "not asked about: six"),
        ([], 2, ""),
    ],
    ids=[
        "nothing is known of all",
        "a vulnerability, with the version that mends it",
        "no answer of one",
        "none at all",
    ],
)
def test_an_audit_is_good_if_all_have_answered_and_nothing_is_known(
    answers: list[dict[str, Any]], exit_code: int, text: str
) -> None:
    audit = read({"dependencies": answers})
    assert (audit.exit_code, text in audit.describe()) == (exit_code, True)


def test_a_service_that_can_not_be_reached_is_said_so(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    assert main(["--vulnerability-service=osv", "--timeout=2"]) == 2
    output = capsys.readouterr()
    assert "run this where it can be reached" in output.out + output.err
