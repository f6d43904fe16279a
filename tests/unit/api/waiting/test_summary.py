from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.v1.status import WaitingReplicas
from tfoperator.api.waiting import Reason, ReasonKind, about_job, reasons_of, text_of, waiting_for

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORDS = st.text("abc ,.:()=/-0123456789'", max_size=30).map(lambda text: " ".join(text.split()).rstrip("."))
CONTAINERS = st.sampled_from(["", "container proxy", "init container fetch"])
REASONS = st.builds(Reason, st.sampled_from(ReasonKind), WORDS.filter(bool), WORDS, container=CONTAINERS)
REPLICAS = st.lists(st.tuples(st.sampled_from(["PS", "Worker"]), st.integers(0, 30)), unique=True, max_size=40)


@given(REPLICAS, st.lists(REASONS, min_size=1, max_size=4), st.randoms())
def test_the_reason_of_each_replica_is_read_back(
    replicas: list[tuple[str, int]], reasons: list[Reason], random: object
) -> None:
    given_reasons = [(kind, index, reasons[index % len(reasons)]) for kind, index in replicas]
    written = msgspec.json.encode(waiting_for(given_reasons))
    read = msgspec.json.decode(written, type=tuple[WaitingReplicas, ...])
    assert reasons_of(read) == {(kind, index): reason for kind, index, reason in given_reasons}
    assert {entry.count for entry in read} <= set(range(1, 41))


def test_many_replicas_are_all_named() -> None:
    quota = Reason(ReasonKind.QUOTA, "no room")
    workers = [("Worker", index, quota) for index in range(1000) if index != 7]
    assert (
        text_of(waiting_for([("PS", 0, quota), *workers]))
        == "PS-0, Worker-0..6 and Worker-8..999 wait: QuotaExceeded: no room"
    )


def test_replicas_with_the_same_reason_wait_since_the_first_of_them() -> None:
    runs = [
        (
            "Worker",
            index,
            Reason(ReasonKind.INIT_RUNS, "init container a runs", "", NOON + timedelta(seconds=5 - index)),
        )
        for index in range(3)
    ]
    assert text_of(waiting_for(runs)) == (
        "Worker-0, Worker-1 and Worker-2 wait: InitContainerRuns: init container a runs since 12:00:03 UTC"
    )


def test_very_many_ranges_are_cut_and_counted() -> None:
    quota = Reason(ReasonKind.QUOTA, "no room")
    replicas = [(kind, index, quota) for kind in ("PS", "Worker") for index in range(0, 30, 2)]
    [entry] = waiting_for(replicas)
    assert entry.count == 30
    assert len(reasons_of((entry,))) == 20
    assert text_of((entry,)).endswith("Worker-6, Worker-8 and others wait: QuotaExceeded: no room")


def test_a_reason_about_the_whole_job_names_no_replica() -> None:
    entries = (about_job(Reason(ReasonKind.NO_LEADER, "the job now has no Chief replica")),)
    assert text_of(entries) == "the job now has no Chief replica"
    assert reasons_of(entries) == {}
    assert text_of(()) == ""


def test_a_kind_of_a_later_release_is_shown_by_its_message() -> None:
    entry = WaitingReplicas("Eclipsed", "it is dark", replicas={"Worker": "0"}, count=1)
    assert text_of((entry,)) == "Worker-0 waits: it is dark"


def test_indexes_that_a_person_has_written_are_read_as_far_as_they_make_sense() -> None:
    entry = WaitingReplicas("QuotaExceeded", "no room", replicas={"Worker": "x,2-1,3", "PS": ""}, count=12)
    assert list(reasons_of((entry,))) == [("Worker", 3)]
