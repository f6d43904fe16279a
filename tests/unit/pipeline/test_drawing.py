from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tfoperator.pipeline.drawing import arrange, draw

DIAMOND = {"begin": (), "left": ("begin",), "right": ("begin",), "end": ("left", "right")}


def test_a_picture_has_each_step_right_of_what_it_reads_from_and_a_line_for_each_channel() -> None:
    begin, left, right, end = arrange(DIAMOND).boxes
    assert begin.x < left.x == right.x < end.x
    assert begin.y == left.y == end.y < right.y
    assert arrange({}).boxes == ()
    picture = ElementTree.fromstring(draw("p & q", DIAMOND, {"begin": "succeeded"}, {"begin": "succeeded 3s"}))
    tags = [element.tag.rpartition("}")[2] for element in picture.iter()]
    texts = [element.text for element in picture.iter() if element.text]
    assert (tags.count("rect"), tags.count("path"), tags.count("text")) == (4, 4, 6)  # an absent note makes no text
    assert {"p & q", "begin", "succeeded 3s"} <= set(texts)


@given(st.lists(st.text(min_size=1), unique=True, max_size=8))
def test_any_name_makes_a_picture(names: list[str]) -> None:
    ElementTree.fromstring(draw("p", {name: tuple(names[:place]) for place, name in enumerate(names)}))
