"""Computes how many chains of actions are tried, and in which order, in a phase that stops at its first failure. Pure.

The number starts at one and doubles, because most failures (a quota, an admission webhook that does not respond) affect
every chain. So if a job may not create any of its 300 replicas, the API server refuses one request instead of 300.

A phase is a part of the plan, whose actions are executed together. A chain is a sequence of actions for one replica,
for example: delete its failed pod, then create the successor. After a failure no more chains are tried, and the next
execution starts again with one. If the order were fixed, one replica that can't be created, or whose failed pod can't
be deleted, would block all replicas after it. So the chains that have failed come last. First the replica types take
turns, because the cause of a refusal usually affects all replicas with the same template. Within a type, the chains
that have failed take turns. The computation of the order needs no API call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tfoperator.controller.plan.values.actions import Action

R = TypeVar("R")
T = TypeVar("T")

Chain = tuple[Action, ...]


def in_growing_batches(
    items: Sequence[T], do: Callable[[Sequence[T]], list[R]], *, ok: Callable[[R], bool], most: int
) -> list[R]:
    """Call `do` with 1, 2, 4 ... items, at most `most` at a time, until a result is not `ok`.

    Returns the results of the items that were tried, in the order of the items.
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
    """Return the chains in the order in which they are tried; `failed` is the last result of `failures_after`."""
    if not failed:
        return list(chains)
    of_type: dict[str, int] = {}
    for chain in chains:
        kind = _type(chain)
        of_type[kind] = max(of_type.get(kind, 0), failed.get(_name(chain), 0))
    return sorted(chains, key=lambda chain: (of_type[_type(chain)], failed.get(_name(chain), 0)))


def failures_after(failed: Mapping[str, int], chains: Sequence[Chain], failures: Sequence[Chain]) -> dict[str, int]:
    """Return the record of failures after an execution; it is the argument `failed` of the next call of `in_turn`.

    `failed` is the record before the execution. `chains` are all chains of the phase, and `failures` are the chains
    that failed in this execution. The record maps the name of a chain's object to a number: the later the failure, the
    higher the number. The record has entries only for chains in `chains`, so it can't grow without a limit.
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
