"""The base class for enumerations of words that programs read, such as condition types: each word has traits."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import msgspec


class Word(StrEnum):
    """An enumeration of words, each with its traits: a struct of facts about the word.

    A subclass annotates the type of its `traits`. Raises TypeError, when a subclass is defined, for a member without
    traits.
    """

    traits: msgspec.Struct

    def __new__(cls, value: str, traits: msgspec.Struct | None = None) -> Self:
        """Create a member of the enumeration: its value is the word, and it has the traits.

        `traits` has a default only for type checkers: for them, the look-up `ConditionType("Ready")` is a call of this
        method.
        """
        if traits is None:
            raise TypeError(f"{value} has no traits: add them after the word in its row of {cls.__name__}")
        member = str.__new__(cls, value)
        member._value_ = value
        member.traits = traits
        return member
