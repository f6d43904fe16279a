"""Every reader of YAML refuses a small text that expands to gigabytes, with its own typed error."""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.base.yamldata.test_bounds import BOMBS
from tfoperator.api.loading import parse_manifests
from tfoperator.base.yamldata.reader import YamlError
from tfoperator.kube.config.kubeconfig import read_kubeconfig
from tfoperator.kube.protocol.errors import ConfigError
from tfoperator.launcher import ComponentError
from tfoperator.launcher.component_file import load_component_file
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http.bodies import decode_object
from tfoperator.operator.options.reading import read_config
from tfoperator.operator.options.settings import OptionsError


def _file(read: Callable[[str], object]) -> Callable[[str, Path], object]:
    def reads(text: str, folder: Path) -> object:
        path = folder / "file.yaml"
        path.write_text(text)
        return read(str(path))

    return reads


READERS: dict[str, tuple[Callable[[str, Path], object], type[Exception]]] = {
    "manifest": (lambda text, _: parse_manifests(text), YamlError),
    "component": (_file(load_component_file), ComponentError),
    "operator's configuration": (_file(read_config), OptionsError),
    "kubeconfig": (_file(lambda path: read_kubeconfig([Path(path)])), ConfigError),
    "body": (lambda text, _: decode_object("application/yaml", text.encode()), StatusError),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", READERS)
def test_a_small_text_that_means_a_lot_is_refused_by_every_reader(tmp_path: Path, reader: str, bomb: str) -> None:
    read, declared = READERS[reader]
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(
            declared, match=r"expand to more than|including the values of its aliases|100 levels of nesting"
        ) as caught:
            read(BOMBS[bomb], tmp_path)
        taken, peak = time.process_time() - started, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (taken < 20, peak < 200 * 2**20) == (True, True), f"{taken:.1f} s, {peak >> 20} MiB"
    assert len(str(caught.value)) < 500
