"""Which namespace belongs to which shard, and how shards are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.operator import Options, OptionsError, parse_options
from tfoperator.operator.options.values import NAMESPACE
from tfoperator.operator.shards import MOST_SHARDS, Shard, parse_shard, settled, shard_of

namespaces = st.from_regex(NAMESPACE, fullmatch=True)
counts = st.integers(1, MOST_SHARDS)

ELECT = "--leader-elect"


@given(namespaces, counts)
def test_every_namespace_belongs_to_exactly_one_shard_of_a_layout(namespace: str, count: int) -> None:
    serving = [number for number in range(count) if Shard(count, number).serves(namespace)]
    assert serving == [shard_of(namespace, count)]


@given(counts)
def test_what_has_no_namespace_is_for_every_shard(count: int) -> None:
    assert all(Shard(count, number).serves("") for number in range(count))


@given(st.integers(2, 8))
def test_namespaces_are_spread(count: int) -> None:
    found = [shard_of(f"team-{number}", count) for number in range(200 * count)]
    assert all(120 < found.count(number) < 280 for number in range(count))


def test_the_hash_never_changes() -> None:
    """Another one would be another layout, and would need another identity for its lease."""
    found = {name: (shard_of(name, 2), shard_of(name, 3)) for name in ("default", "training", "research", "team-1")}
    assert found == {"default": (1, 1), "training": (0, 0), "research": (0, 2), "team-1": (0, 1)}
    assert Shard(3, 1).layout_identity == "shards-of-3-by-namespace"


def test_a_shard_has_a_lease_of_its_own_and_its_layout_an_identity() -> None:
    assert {Shard(3, number).lease_name("tfoperator") for number in range(3)} == {
        "tfoperator-0-of-3",
        "tfoperator-1-of-3",
        "tfoperator-2-of-3",
    }
    assert Shard(2, 0).layout_identity != Shard(3, 0).layout_identity
    assert Shard(3, 0).layout_identity == Shard(3, 2).layout_identity


@pytest.mark.parametrize(
    ("written", "expected"),
    [("0/3", Shard(3, 0)), ("2/3", Shard(3, 2)), ("0/1", Shard(1, 0)), ("auto/3", Shard(3)), ("", None)],
)
def test_shards_are_written_as_number_and_count(written: str, expected: Shard | None) -> None:
    assert parse_shard(written) == expected
    assert written == ("" if expected is None else str(expected))


@pytest.mark.parametrize("written", ["3/3", "-1/3", "1", "1/0", "0/101", "a/3", "1/2/3", "auto", "auto/0", 3, None])
def test_what_is_no_shard_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_shard(written)


@pytest.mark.parametrize(("host", "number"), [("tfoperator-0", 0), ("tfoperator-2", 2), ("a-b-3", 0), ("x-10", 1)])
def test_a_pod_of_a_stateful_set_takes_the_shard_of_its_ordinal(host: str, number: int) -> None:
    assert settled(Shard(3), host) == Shard(3, number)
    assert settled(Shard(3, 1), host) == Shard(3, 1)


@pytest.mark.parametrize("host", ["tfoperator", "tfoperator-7d9f-x2k4z", "tfoperator-1a", ""])
def test_a_host_without_an_ordinal_has_no_shard(host: str) -> None:
    with pytest.raises(ValueError, match="StatefulSet"):
        settled(Shard(3), host)


def test_the_option_is_read_and_needs_leader_election() -> None:
    assert parse_options([ELECT, "--shard=1/3"], {}).shard == Shard(3, 1)
    assert parse_options([ELECT], {"TFOPERATOR_SHARD": "auto/4"}).shard == Shard(4)
    assert Options().shard is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shard=0/2"], "--shard needs --leader-elect"),
        ([ELECT, "--shard=2/2"], "--shard must be one of the shards 0 to 1"),
        ([ELECT, "--shard=0/2", "--archive-dir=/logs"], "--shard and --archive-dir exclude each other"),
        ([ELECT, "--shard=0/2", "--progress-bind-address=:1"], "--shard and --progress-bind-address exclude"),
    ],
)
def test_what_shards_exclude_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(OptionsError) as caught:
        parse_options(arguments, {})
    assert message in str(caught.value)
