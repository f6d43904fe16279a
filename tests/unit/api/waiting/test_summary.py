from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.waiting import Reason, ReasonKind, reasons_in, summary

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORDS = st.text("abc ,.:()=/-0123456789'", max_size=30).map(lambda text: " ".join(text.split()).rstrip("."))
REASONS = st.builds(Reason, st.sampled_from(ReasonKind), WORDS.filter(bool), WORDS)
REPLICAS = st.lists(st.tuples(st.sampled_from(["PS", "Worker"]), st.integers(0, 30)), unique=True, max_size=40)


@given(REPLICAS, st.lists(REASONS, min_size=1, max_size=4), st.randoms())
def test_the_reason_of_each_replica_is_read_back(
    replicas: list[tuple[str, int]], reasons: list[Reason], random: object
) -> None:
    given_reasons = [(kind, index, reasons[index % len(reasons)]) for kind, index in replicas]
    message = f"TFJob ns/x does not run yet. 0/9 replicas ready; {summary(given_reasons)}."
    assert reasons_in(message) == {f"{kind}-{index}": str(reason).rstrip(".") for kind, index, reason in given_reasons}


def test_many_replicas_are_all_named() -> None:
    quota = Reason(ReasonKind.QUOTA, "no room")
    workers = [("Worker", index, quota) for index in range(1000) if index != 7]
    assert summary([("PS", 0, quota), *workers]) == "PS-0, Worker-0..6 and Worker-8..999 wait: QuotaExceeded: no room"


def test_replicas_with_the_same_reason_wait_since_the_first_of_them() -> None:
    runs = [
        (
            "Worker",
            index,
            Reason(ReasonKind.INIT_RUNS, "init container a runs", "", NOON + timedelta(seconds=5 - index)),
        )
        for index in range(3)
    ]
    assert summary(runs) == (
        "Worker-0, Worker-1 and Worker-2 wait: InitContainerRuns: init container a runs since 12:00:03 UTC"
    )


def test_a_message_without_reasons_has_none() -> None:
    assert reasons_in("TFJob ns/x is running. 1/2 replicas ready.") == {}
    assert reasons_in("") == {}
