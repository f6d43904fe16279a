import threading
from unittest.mock import Mock

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tfoperator.leaderelection.elector import call_with_deadline


def test_an_error_is_passed_on_and_a_call_that_hangs_is_abandoned_at_the_deadline() -> None:
    clock = FakeClock()
    with pytest.raises(LookupError, match="gone"):
        call_with_deadline(Mock(side_effect=LookupError("gone")), clock=clock, deadline=1, name="call")
    let_go = threading.Event()
    waiting = InThread(
        lambda: call_with_deadline(lambda: let_go.wait(60), clock=clock, deadline=5, name="lease kubeflow/tfoperator")
    )
    clock.wait_for_deadline(5)
    clock.advance(5)
    with pytest.raises(TimeoutError, match="lease kubeflow/tfoperator got no answer"):
        waiting.result()
    let_go.set()
