from pathlib import Path

from hack.bench.large_jobs import JOB_BYTES, SERVICE_BYTES, SERVICES_COUNT, measure

JOBS = 60


def test_what_the_operator_takes_beside_large_objects_is_a_part_of_their_size(tmp_path: Path) -> None:
    """Before the caches were bounded: 2.2 times the size of the jobs when watched, 1.1 when listed as a stream."""
    peaks = measure(tmp_path, jobs=JOBS)
    nothing = peaks.pop("nothing")
    jobs, services = JOBS * JOB_BYTES / 2**20, SERVICES_COUNT * SERVICE_BYTES / 2**20
    # Objects that are read at a time count here: eight templates from which pods are made, and pages of up to 64 MiB.
    allowed = {"watched": jobs, "listed as a stream": jobs / 3, "change of leaders": jobs / 3, "listed in pages": 120}
    allowed |= {"services, as a stream": services / 5, "services, in pages": 100}
    grown = {what: peak - nothing for what, peak in peaks.items()}
    assert {what: mib for what, mib in grown.items() if mib > allowed[what]} == {}
