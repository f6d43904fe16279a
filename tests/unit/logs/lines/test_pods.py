"""The log of a pod's container, whose API server refuses requests."""

import itertools

import pytest

from tests.support.clock import FakeClock
from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.kube import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.protocol.retry import Outages
from tfoperator.logs.lines.pods import open_pod_log
from tfoperator.logs.lines.reader import LogCut, LogNotYet, NoLog


def test_a_refusal_is_final_unless_the_server_has_just_started() -> None:
    codes = itertools.chain([400, 403, 503, 403, 403])
    clock = FakeClock()
    outages = Outages(clock)

    def answer(exchange: Exchange) -> None:
        exchange.status(next(codes), "Refused", "no")

    with ScriptedServer(answer) as server, Client(ClusterConfig(server=server.url)) as client:
        for expected in (LogNotYet, NoLog, LogCut, LogCut):
            with pytest.raises((LogCut, NoLog)) as caught:
                open_pod_log(client, "ns", "p", "tensorflow", "", outages=outages)
            assert caught.type is expected
        clock.advance(31)
        with pytest.raises(NoLog, match="no"):
            open_pod_log(client, "ns", "p", "tensorflow", "", outages=outages)
