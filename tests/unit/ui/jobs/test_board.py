"""The page's messages about kinds that can't be read."""

from tfoperator.ui.jobs.board import Health


def listening() -> tuple[Health, list[dict[str, str]]]:
    """Return a health, and the list of the problems that it reports."""
    told: list[dict[str, str]] = []
    health = Health(lambda: told.append(health.problems))
    return health, told


def test_a_kind_that_can_not_be_followed_again_and_again_is_named_until_it_can() -> None:
    health, told = listening()
    # Once it may be that a version has expired: the list that follows is no news.
    health.watch_failed("pods/default", "Expired")
    health.list_finished("pods/default", 0.1, 3)
    health.watch_started("pods/default")
    for kind in ("pods", "tfjobs"):
        health.watch_failed(f"{kind}/default", "ConnectionRefused")
    assert told == []
    for _ in range(2):
        health.watch_failed("pods/default", "ConnectionRefused")
    assert told == [{"pods": "ConnectionRefused"}]
    health.watch_started("pods/default")
    health.watch_failed("pods/default", "ConnectionRefused")
    assert told[1:] == [{}]


def test_a_kind_that_can_not_be_listed_is_named_at_once_and_one_that_may_not_be_watched_all_the_time() -> None:
    health = Health(lambda: None)
    health.list_failed("events/default", "Forbidden")
    assert health.problems == {"events": "Forbidden"}
    health.list_finished("events/default", 0.1, 0)
    assert health.problems == {}
    health, told = listening()
    for _ in range(5):
        health.watch_failed("pods/default", "Forbidden")
        health.list_finished("pods/default", 0.1, 3)
    assert told == [{"pods": "Forbidden"}]
    health.watch_started("pods/default")
    assert told[1:] == [{}]


def test_what_is_wrong_in_one_namespace_is_not_hidden_by_the_recovery_of_another() -> None:
    health, told = listening()
    for namespace in ("a", "b", "c"):
        health.list_failed(f"pods/{namespace}", "Forbidden")
    assert told[-1] == {"pods": "Forbidden in a, b, c"}
    health.watch_started("pods/a")
    health.list_failed("pods/c", "ConnectionRefused")
    assert told[-1] == {"pods": "Forbidden in b; ConnectionRefused in c"}
    health.watch_started("pods/c")
    assert told[-1] == {"pods": "Forbidden in b"}
    health.watch_started("pods/b")
    assert told[-1] == {}
