from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tfoperator.api.crd import crd
from tfoperator.cli.__main__ import main


@pytest.mark.parametrize(("flags", "load"), [([], yaml.safe_load), (["-o", "json"], json.loads)])
def test_the_crd_is_printed(flags: list[str], load: Callable[[str], Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", *flags]) == 0
    assert load(capsys.readouterr().out) == crd()
    assert main(["crd", "--versions", "all", *flags]) == 0
    assert load(capsys.readouterr().out) == crd(all_versions=True)
    url = "https://host:9443/convert"
    assert main(["crd", "--versions", "all", "--webhook-url", url, *flags]) == 0
    conversion = load(capsys.readouterr().out)["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"] == {"url": url}


def test_an_address_that_nobody_would_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crd", "--webhook-url", "https://host/convert"]) == 2
    assert "--versions all" in capsys.readouterr().err
