from typing import Any

from hack.audit import main, read

FINE = {"name": "idna", "version": "3.20", "vulns": []}
SKIPPED = {"name": "six", "skip_reason": "Dependency not found on PyPI and could not be audited: six (1.17.0)"}
VULNERABLE: dict[str, Any] = {
    "name": "idna", "version": "3.6", "vulns": [{"id": "PYSEC-2024-60", "fix_versions": ["3.7"], "aliases": []}],
}  # fmt: skip


def test_nothing_known_of_all_is_good() -> None:
    audit = read({"dependencies": [FINE]})
    assert audit.exit_code == 0
    assert audit.describe() == "1 packages asked about, 0 vulnerabilities known"


def test_a_vulnerability_is_named_with_the_version_that_mends_it() -> None:
    audit = read({"dependencies": [VULNERABLE, SKIPPED]})
    assert audit.exit_code == 1
    assert "idna 3.6: PYSEC-2024-60, fixed in 3.7" in audit.describe()


def test_no_answer_is_not_a_good_one() -> None:
    audit = read({"dependencies": [FINE, SKIPPED]})
    assert audit.exit_code == 2
    assert "not asked about: six" in audit.describe()
    assert read({"dependencies": []}).exit_code == 2


def test_a_service_that_can_not_be_reached_is_said_so(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    assert main(["--vulnerability-service=osv", "--timeout=2"]) == 2
    said = capsys.readouterr()
    assert "run this where it can be reached" in said.out + said.err
