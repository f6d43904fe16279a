import re
import sys
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local.run.mlflow_tracking import MlflowTracking, TrackingError, key_of


def test_a_password_in_the_place_is_not_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was printed twice in 2026-11: once in the place, and once in MLflow's own message."""
    uri = "http://user:PASSWORD42@127.0.0.1:1/x?token=PASSWORD42"

    class MlflowException(Exception):
        pass

    class MlflowClient:
        def get_experiment_by_name(self, _name: str) -> None:
            raise MlflowException(f"API request to {uri}&a=b failed with exception ...")

    members = {"MlflowException": MlflowException, "MlflowClient": MlflowClient, "get_tracking_uri": lambda: uri}
    monkeypatch.setitem(sys.modules, "mlflow", cast(ModuleType, SimpleNamespace(**members)))
    with pytest.raises(TrackingError) as raised:
        MlflowTracking()
    shown = "http://127.0.0.1:1/x?..."
    assert str(raised.value) == f"MLflow's {shown}: API request to {shown} failed with exception ..."


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
