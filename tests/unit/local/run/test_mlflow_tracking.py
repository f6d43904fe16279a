import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local.run.mlflow_tracking import MlflowTracking, TrackingError, key_of


@given(st.text(min_size=1) | st.text(alphabet="./ a", min_size=1))
def test_a_name_becomes_one_that_mlflow_takes(name: str) -> None:
    key = key_of(name)
    # MLflow's rules: these characters, and a path that names itself.
    assert re.fullmatch(r"[\w. /-]+", key)
    assert not any(part in ("", ".", "..") for part in key.split("/"))


def test_a_name_that_mlflow_takes_stays_and_without_mlflow_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("loss", "val/loss", "top-5 accuracy", "a.b"):
        assert key_of(name) == name
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(TrackingError, match=r"pip install 'tfoperator\[mlflow\]'"):
        MlflowTracking()
