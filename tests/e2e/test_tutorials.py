"""README, the tutorials and the page on models as a person follows them: files are written, commands are typed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.film import SECONDS, TARGET, TUTORIALS, Film, clone, end_cluster, environment, script


@pytest.fixture
def variables(tmp_path: Path) -> Iterator[dict[str, str]]:
    made = environment(tmp_path)
    yield made
    end_cluster(made)


@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("page", [*TUTORIALS, TUTORIALS[0].with_name("models.md")], ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed(page: Path, tmp_path: Path, variables: dict[str, str]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    film = Film(folder, variables)
    try:
        film.play(page)
    finally:
        film.close()


@pytest.mark.timeout(SECONDS + 20)
def test_the_first_command_of_readme_trains_in_a_fresh_clone(tmp_path: Path, variables: dict[str, str]) -> None:
    film = Film(clone(tmp_path), variables)
    try:
        film.type("make run")
    finally:
        film.close()
    assert "accuracy on held-out samples" in "".join(text for _, kind, text in film.events if kind == "o")


def test_the_film_types_what_the_tutorials_say() -> None:
    events = [json.loads(line) for line in TARGET.read_text().splitlines()[1:]]
    typed = "".join(text for _, kind, text in events if kind == "i")
    for page in TUTORIALS:
        commands = "".join(text for kind, text in script(page) if kind == "i")
        assert commands in typed, f"{page.name} has changed since the film: python -m hack.film"
