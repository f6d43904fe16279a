"""The base of tables of words."""

import msgspec
import pytest

from tfoperator.base.words import Word


class Colour(msgspec.Struct, frozen=True):
    warm: bool


class Signal(Word):
    traits: Colour

    STOP = "stop", Colour(warm=True)
    GO = "go", Colour(warm=False)


def test_a_member_is_its_word_and_has_its_traits() -> None:
    assert [(str(signal), signal.traits.warm) for signal in Signal] == [("stop", True), ("go", False)]
    assert Signal("go") is Signal.GO


def test_a_row_without_traits_is_refused_when_its_table_is_read() -> None:
    with pytest.raises(TypeError, match="stop has no traits: add them after the word in its row of Incomplete"):

        class Incomplete(Word):
            STOP = "stop"
