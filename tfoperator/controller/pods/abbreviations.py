"""Long lists of hosts in short, for pods of which each names all the others.

What a job's pods say of each other grows with the square of their number: 45 MB for 1000 workers of one service, of
which nearly all is one host name with another number in it. What stands between two numbers becomes a variable of its
own, to which the list refers; the kubelet puts one into the other before the program starts, also in arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

_LONG = 4096
"""Characters of the longest list that is not abbreviated: 35 to 145 replicas, by the length of their names. A person
who looks at such a pod reads what the program does, and the pod is not much larger for it."""

_SHORT = 10
"""What has fewer characters is hardly longer than a reference to it."""


class Abbreviations:
    """The variables of one job, by which its lists of hosts are short. Not thread-safe.

    They are called `name` (as short as can be, for they stand between any two hosts), and where that is in `taken` or
    there are several, `name` with more underscores.
    """

    def __init__(self, taken: Collection[str] = (), name: str = "_") -> None:
        self._taken = taken
        self._name = name
        self._values: dict[str, str] = {}

    @property
    def variables(self) -> Mapping[str, str]:
        """Names and values, which refer to nothing; they have to come before whatever was joined."""
        return self._values

    def join(self, texts: Sequence[str], glue: str) -> str:
        """`glue.join(texts)` once references are replaced; with references if that is long."""
        whole = glue.join(texts)
        if len(whole) <= _LONG or "$" in whole:
            return whole
        start = _common_start(texts)
        rests = [text.removeprefix(start) for text in texts]
        end = _common_start([rest[::-1] for rest in rests])[::-1]
        between = f"{end}{glue}{start}"
        if len(between) < _SHORT:
            return whole
        return f"{start}{self._reference(between).join(rest.removesuffix(end) for rest in rests)}{end}"

    def _reference(self, value: str) -> str:
        name = next((name for name, known in self._values.items() if known == value), None)
        if name is None:
            name = self._name
            while name in self._taken or name in self._values:
                name += "_"
            self._values[name] = value
        return f"$({name})"


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    differs = (position for position, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differs, len(first))]
