import json
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from hack.bench.measure import (
    CONTESTANT_USER,
    AuditLog,
    count_calls,
    median_and_p99,
    parse_stat,
    parse_status,
    wait_quiet,
    wait_silent,
)


def line(
    verb: str, resource: str, *, subresource: str = "", user: str = CONTESTANT_USER, stage: str = "ResponseComplete"
) -> bytes:
    reference = {"resource": resource, "namespace": "bench", **({"subresource": subresource} if subresource else {})}
    entry = {"kind": "Event", "stage": stage, "verb": verb, "user": {"username": user}, "objectRef": reference}
    return json.dumps(entry).encode()


@pytest.mark.parametrize(
    "other",
    [
        line("watch", "pods"),
        line("update", "leases"),
        line("create", "pods", user="admin"),
        line("create", "pods", stage="ResponseStarted"),
        b'{"stage": "ResponseComplete", "verb": "get", "user": {"username": "%s"}, "requestURI": "/version"}'
        % CONTESTANT_USER.encode(),
    ],
    ids=["a watch", "a lease", "somebody else's", "not over yet", "about no object"],
)
def test_a_call_is_not_counted_if_it_is(other: bytes) -> None:
    assert count_calls([other]) == Counter()


def test_a_growing_log_is_read_once_and_nothing_is_lost_when_it_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    assert log.counts() == Counter()
    path.write_bytes(line("create", "pods") + b"\n" + line("create", "services")[:20])
    assert log.counts() == Counter({"create pods": 1}), "half a line waits for its other half"
    with path.open("ab") as more:
        more.write(line("create", "services")[20:] + b"\n")
    for _ in range(2):
        assert log.counts() == Counter({"create pods": 1, "create services": 1})
    with path.open("ab") as more:
        more.write(line("delete", "pods") + b"\n")
    path.rename(tmp_path / "audit-2026-11-21T10-00-00.000.log")
    path.write_bytes(line("create", "events") + b"\n")
    rotated = {"delete pods": 1, "create events": 1}
    assert log.counts() == Counter({"create pods": 1, "create services": 1, **rotated})


def test_cpu_time_is_read_past_a_name_with_blanks_and_parentheses_and_memory_in_bytes() -> None:
    fields = "S 1 1 1 0 -1 4194560 9 0 0 0 250 150 0 0 20 0 9 0 100 1 1"
    assert parse_stat(f"42 (a (strange) name) {fields}") == 400 / os.sysconf("SC_CLK_TCK")
    assert parse_status("Name:\tx\nVmPeak:\t9999 kB\nVmHWM:\t  200 kB\nVmRSS:\t  100 kB\n") == (102400, 204800)
    assert parse_status("Name:\tx\nState:\tZ (zombie)\n") == (0, 0)


def test_the_median_and_the_99th_percentile_are_interpolated() -> None:
    assert median_and_p99([float(number) for number in range(1, 102)]) == (51.0, 100.0)
    assert median_and_p99([1.0, 2.0]) == pytest.approx((1.5, 1.99))


def test_a_busy_process_is_not_called_quiet() -> None:
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(stop.is_set, True)])
    busy.start()
    try:
        with pytest.raises(TimeoutError, match="still busy"):
            wait_quiet([os.getpid()], 2.5)
    finally:
        stop.set()
        busy.join()


def test_an_operator_that_goes_on_calling_now_and_then_is_not_at_rest() -> None:
    counts = [1, 2, 2, 3, 4]

    def calls() -> int:
        return counts.pop(0) if len(counts) > 1 else counts[0]

    wait_silent(calls, 30, period=0.2)
    assert counts == [4]
    with pytest.raises(TimeoutError, match="still calls"):
        wait_silent(iter(range(1000)).__next__, 0.3, period=0.2)
