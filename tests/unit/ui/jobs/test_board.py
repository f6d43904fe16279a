"""The page's messages about kinds that can't be read."""

from tfoperator.ui.jobs.board import Health


def listening() -> tuple[Health, list[dict[str, str]]]:
    """Return a health, and the list of the problems that it reports."""
    reported: list[dict[str, str]] = []
    health = Health(lambda: reported.append(health.problems))
    return health, reported


def test_a_kind_that_can_not_be_followed_again_and_again_is_named_until_it_can() -> None:
    health, reported = listening()
    # Once it may be that a version has expired: the list that follows is no news.
    health.watch_failed("pods/default", "Expired")
    health.list_finished("pods/default", 0.1, 3)
    health.watch_started("pods/default")
    for kind in ("pods", "tfjobs"):
        health.watch_failed(f"{kind}/default", "ConnectionRefused")
    assert reported == []
    for _ in range(2):
        health.watch_failed("pods/default", "ConnectionRefused")
    assert reported == [{"pods": "ConnectionRefused"}]
    health.watch_started("pods/default")
    health.watch_failed("pods/default", "ConnectionRefused")
    assert reported[1:] == [{}]


def test_a_kind_that_can_not_be_listed_is_named_at_once_and_one_that_may_not_be_watched_all_the_time() -> None:
    health = Health(lambda: None)
    health.list_failed("events/default", "Forbidden")
    assert health.problems == {"events": "Forbidden"}
    health.list_finished("events/default", 0.1, 0)
    assert health.problems == {}
    health, reported = listening()
    for _ in range(5):
        health.watch_failed("pods/default", "Forbidden")
        health.list_finished("pods/default", 0.1, 3)
    assert reported == [{"pods": "Forbidden"}]
    health.watch_started("pods/default")
    assert reported[1:] == [{}]


def test_what_is_wrong_in_one_namespace_is_not_hidden_by_the_recovery_of_another() -> None:
    health, reported = listening()
    for namespace in ("a", "b", "c"):
        health.list_failed(f"pods/{namespace}", "Forbidden")
    assert reported[-1] == {"pods": "Forbidden in a, b, c"}
    health.watch_started("pods/a")
    health.list_failed("pods/c", "ConnectionRefused")
    assert reported[-1] == {"pods": "Forbidden in b; ConnectionRefused in c"}
    health.watch_started("pods/c")
    assert reported[-1] == {"pods": "Forbidden in b"}
    health.watch_started("pods/b")
    assert reported[-1] == {}
