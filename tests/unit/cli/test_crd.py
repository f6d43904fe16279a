from __future__ import annotations

import json

import pytest
import yaml

from tfoperator.api.crd import crd
from tfoperator.cli.__main__ import main


@pytest.mark.parametrize(("flags", "load"), [([], yaml.safe_load), (["-o", "json"], json.loads)])
def test_the_crd_is_printed(flags: list[str], load: type[object], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", *flags]) == 0
    assert load(capsys.readouterr().out) == crd()
    assert main(["crd", "--versions", "all", *flags]) == 0
    assert load(capsys.readouterr().out) == crd(all_versions=True)
