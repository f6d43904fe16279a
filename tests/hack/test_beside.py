"""Environments that have tfoperator and a stranger's SDK: all that they resolve to is what setup.cfg asks for."""

import configparser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SDKS = {"kfp": {"kfp", "kfp-kubernetes", "kfp-server-api"}, "tfx": {"tfx", "ml-metadata", "kfp"}}


@pytest.mark.parametrize("name", SDKS)
def test_what_is_resolved_beside_a_strangers_sdk_is_what_setup_cfg_asks_for(name: str) -> None:
    lines = (ROOT / f"hack/strangers/beside/{name}.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    versions = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    wanted = [config["options"]["install_requires"], config["options.extras_require"]["pipeline"]]
    ours = [Requirement(line) for text in wanted for line in text.splitlines() if line]
    assert ours
    assert not [
        str(requirement)
        for requirement in ours
        if not requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
    ]
    assert SDKS[name] - {"kfp"} <= versions.keys()
