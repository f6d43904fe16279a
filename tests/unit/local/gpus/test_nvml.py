import importlib
import inspect
import sys
from pathlib import Path

import pytest

from tests.support.nvml import FakeNvml, uuids
from tfoperator.local.gpus import nvml
from tfoperator.local.gpus.allocation import links_between
from tfoperator.local.gpus.nvml import NoGpus, Nvml


def test_what_there_is_and_that_a_device_that_is_lost_is_left_out() -> None:
    devices = uuids(3)
    machine = FakeNvml(devices)
    machine.peers = {devices[0]: [machine.bus(devices[2])], devices[2]: [machine.bus(devices[0])]}
    library = Nvml(machine)
    gpus = library.gpus()
    expected = [(device, index, "Test GPU", 80 << 30) for index, device in enumerate(devices)]
    assert [(gpu.uuid, gpu.index, gpu.name, gpu.memory) for gpu in gpus] == expected
    assert links_between(gpus) == {frozenset((devices[0], devices[2])): 1}
    machine.broken.add(devices[0])
    assert [gpu.uuid for gpu in library.gpus()] == devices[1:]
    use = library.use(devices)
    assert list(use) == devices[1:]
    assert (use[devices[1]].busy, use[devices[1]].memory) == (0.5, 1 << 30)
    library.close()
    assert machine.open == 0


def test_without_the_package_it_matters_whether_there_are_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(nvml, "_DEVICES", tmp_path / "gpus")
    with pytest.raises(NoGpus):
        Nvml()
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    with pytest.raises(NoGpus, match=r"pip install 'tfoperator\[gpu\]'"):
        Nvml()


def test_the_stand_in_has_nothing_that_the_real_package_lacks() -> None:
    assert "fake_nvml" not in "".join(sys.path)
    real = importlib.import_module("pynvml")
    used = [name for name in vars(FakeNvml) if name.lower().startswith("nvml")]
    assert len(used) > 10
    for name in used:
        ours, theirs = getattr(FakeNvml, name), getattr(real, name)
        if inspect.isfunction(ours):
            assert len(inspect.signature(ours).parameters) - 1 <= len(inspect.signature(theirs).parameters)
