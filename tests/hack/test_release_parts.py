import io
import tarfile

import pytest

from hack.release_parts import NoNotes, chart_package, notes

LOG = """\
# Changelog

## [Unreleased]

- to come

## [0.2.0] - 2026-11-01

### Added

- a thing

## [0.1.0] - 2026-01-01

- the first
"""


def test_the_notes_are_the_versions_own_section_or_what_is_to_come_and_never_nothing() -> None:
    assert notes(LOG, "0.2.0") == "# tfoperator 0.2.0\n\n### Added\n\n- a thing\n"
    assert notes(LOG, "0.1.0").endswith("- the first\n")
    assert notes(LOG, "0.3.0") == "# tfoperator 0.3.0\n\n- to come\n"
    with pytest.raises(NoNotes, match=r"\[0.3.0\]"):
        notes("# Changelog\n\n## [Unreleased]\n", "0.3.0")


def test_a_chart_package_is_the_same_each_time_and_begins_with_the_chart() -> None:
    files = {"values.yaml": b"a: 1\n", "Chart.yaml": b"name: x\n", "templates/a.yaml": b"kind: A\n"}
    package = chart_package(files, "x", 1_700_000_000)
    assert package == chart_package(dict(reversed(files.items())), "x", 1_700_000_000)
    with tarfile.open(fileobj=io.BytesIO(package)) as read:
        assert [member.name for member in read] == ["x/Chart.yaml", "x/templates/a.yaml", "x/values.yaml"]
        assert {member.mtime for member in read} == {1_700_000_000}
