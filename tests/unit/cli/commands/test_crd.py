import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.large_yaml import loaded
from tests.unit.cli.conftest import Run
from tfoperator.api.schema.crd import crd


@pytest.mark.parametrize(("flags", "load"), [([], loaded), (["-o", "json"], json.loads)])
def test_the_crd_is_printed(flags: list[str], load: Callable[[str], Any], run: Run) -> None:
    assert load(run("crd", *flags, code=0).out) == crd()
    assert load(run("crd", "--versions", "all", *flags, code=0).out) == crd(all_versions=True)
    assert load(run("crd", "--open-templates", *flags, code=0).out) == crd(open_templates=True)
    url = "https://host:9443/convert"
    conversion = load(run("crd", "--versions", "all", "--webhook-url", url, *flags, code=0).out)["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"] == {"url": url}
    assert "--versions all" in run("crd", "--webhook-url", url, *flags, code=2).err, "nobody would use it"
