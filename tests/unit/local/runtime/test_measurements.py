from tfoperator.local.runtime import measurements
from tfoperator.local.runtime.measurements import ContainerName, PeakMemory


def test_the_most_of_all_attempts_is_kept_and_those_are_forgotten_that_were_not_seen_for_longest() -> None:
    peaks = PeakMemory()
    a, b = ContainerName("ns", "p", "a"), ContainerName("ns", "p", "b")
    peaks.note(a, 10)
    peaks.note(b, 5)
    peaks.note(a, 30)
    peaks.note(a, 20)
    peaks.note(b, 0)
    assert peaks.of_pod("ns", "p") == {"a": 30, "b": 5}
    assert peaks.of_pod("ns", "q") == {}
    peaks = PeakMemory()
    names = [ContainerName("ns", f"p{number}", "c") for number in range(measurements._REMEMBERED + 1)]
    for name in names[:-1]:
        peaks.note(name, 1)
    peaks.note(names[0], 2)
    peaks.note(names[-1], 1)
    assert [peaks.of_pod("ns", name.pod) for name in (names[0], names[1], names[-1])] == [{"c": 2}, {}, {"c": 1}]
