"""How many chains of a phase are tried that stops at its first failure, and in which order. Pure.

It starts with one and doubles: most failures (a quota, an admission webhook that is down) hit every chain alike, so a
job of 300 replicas that may not create any learns it from one refusal instead of 300.

After a failure no more is tried, and the next execution begins again. Were the order always the same, one replica that
may not be created, or whose failed pod may not be deleted, would keep all that come after it from being tried. So those
that have failed come last. The types of replicas take turns first, since what refuses one replica mostly refuses those
that are made from the same template; within a type those that have failed take turns. An order costs no call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tfoperator.controller.plan import Action

R = TypeVar("R")
T = TypeVar("T")

Chain = tuple[Action, ...]


def in_growing_batches(
    items: Sequence[T], do: Callable[[Sequence[T]], list[R]], *, ok: Callable[[R], bool], most: int
) -> list[R]:
    """`do` what is to be done about 1, 2, 4 ... items, at most so many at a time, up to a result that isn't `ok`.

    Returns the results of all items that were tried, which are the first ones.
    """
    done: list[R] = []
    size = 1
    while len(done) < len(items):
        batch = do(items[len(done) : len(done) + size])
        done += batch
        if not all(map(ok, batch)):
            break
        size = min(size * 2, most)
    return done


def in_turn(chains: Sequence[Chain], failed: Mapping[str, int]) -> list[Chain]:
    """The chains in the order in which they are to be tried; `failed` is what `failures_after` has returned."""
    if not failed:
        return list(chains)
    of_type: dict[str, int] = {}
    for chain in chains:
        kind = _type(chain)
        of_type[kind] = max(of_type.get(kind, 0), failed.get(_name(chain), 0))
    return sorted(chains, key=lambda chain: (of_type[_type(chain)], failed.get(_name(chain), 0)))


def failures_after(failed: Mapping[str, int], chains: Sequence[Chain], failures: Sequence[Chain]) -> dict[str, int]:
    """What is remembered after `chains` were tried, or skipped, and `failures` of them have failed now.

    By the name of their object, with a number that is the higher the later the failure was. What is not in `chains`
    any more is forgotten, so this is never larger than they are.
    """
    latest = max(failed.values(), default=0) + 1
    now = {_name(chain) for chain in failures}
    names = (_name(chain) for chain in chains)
    return {name: latest if name in now else failed[name] for name in names if name in now or name in failed}


def _name(chain: Chain) -> str:
    return chain[0].name


def _type(chain: Chain) -> str:
    replica = chain[0].replica
    return "" if replica is None else replica[0]
