from typing import Any

import pytest

from tests.unit.informers.support import Script, api_error, page, pod
from tfoperator.kube.protocol.errors import AnswerTooLarge, GoneError, ObjectTooLarge, ServerError
from tfoperator.kube.watching.listing import PAGE_SIZE, list_all, list_pages

EXPIRED = api_error(410, "The provided continue parameter is too old", reason="Expired")
FIRST = page(pod("a"), version=10, token="t")


def names(objects: Any) -> list[str]:
    return [obj.metadata.name for obj in objects]


def test_every_page_is_of_the_version_that_the_first_one_names_and_they_end_with_the_token() -> None:
    # A server may answer a token that it gave with a 410 by a newer state.
    script = Script(lists=[FIRST, page(pod("b"), version=15, token="u"), page(pod("c"), version=16)])
    pages = list(list_pages(script))
    assert [names(listed_page.items) for listed_page in pages] == [["a"], ["b"], ["c"]]
    assert [listed_page.resource_version for listed_page in pages] == ["10"] * 3
    assert [(call.continue_token, call.limit) for call in script.list_calls] == [(t, PAGE_SIZE) for t in ("", "t", "u")]
    one_by_one = list_pages(Script(lists=[FIRST, EXPIRED]))
    assert names(next(one_by_one).items) == ["a"]
    with pytest.raises(GoneError):
        next(one_by_one)


def test_a_whole_list_has_the_version_of_its_first_page_or_of_the_one_piece_that_follows_an_expired_token() -> None:
    script = Script(lists=[FIRST, page(pod("b"), version=15)])
    listing = list_all(script, resource_version="0")
    assert names(listing.items) == ["a", "b"]
    assert (listing.resource_version, listing.paged) == ("10", True)
    assert [(call.continue_token, call.resource_version) for call in script.list_calls] == [("", "0"), ("t", "")]
    script = Script(lists=[FIRST, EXPIRED, page(pod("a"), pod("b"), version=20)])
    listing = list_all(script, resource_version="0")
    assert names(listing.items) == ["a", "b"]
    assert (listing.resource_version, listing.paged) == ("20", True)
    last = script.list_calls[-1]
    assert (last.resource_version, last.limit, last.continue_token) == ("0", 0, "")


@pytest.mark.parametrize(
    ("answers", "error"), [([EXPIRED], GoneError), ([FIRST, api_error(500)], ServerError)], ids=["first", "later"]
)
def test_any_other_failure_is_the_callers(answers: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        list_all(Script(lists=answers))


def test_where_a_page_is_too_large_half_of_it_is_asked_for_and_an_object_too_large_for_any_answer_ends_the_list() -> (
    None
):
    large = AnswerTooLarge("larger than 64 bytes")
    script = Script(lists=[FIRST, large, large, page(pod("b"), version=15, token="u"), page(pod("c"), version=16)])
    listing = list_all(script)
    assert names(listing.items) == ["a", "b", "c"]
    asked = [(call.continue_token, call.limit) for call in script.list_calls]
    assert asked == [("", 500), ("t", 500), ("t", 250), ("t", 125), ("u", 125)]
    script = Script(lists=[AnswerTooLarge("larger than 64 bytes")] * 9)
    with pytest.raises(ObjectTooLarge, match="a single object can't be read: larger than 64 bytes"):
        list_all(script)
    assert [call.limit for call in script.list_calls] == [500, 250, 125, 62, 31, 15, 7, 3, 1]


@pytest.mark.parametrize("asked", [{"resource_version": "0"}, {"limit": 0}])
def test_what_a_server_answers_in_one_piece_is_not_asked_for_in_smaller_ones(asked: dict[str, Any]) -> None:
    script = Script(lists=[AnswerTooLarge("larger than 64 bytes")])
    with pytest.raises(AnswerTooLarge):
        list_all(script, **asked)
