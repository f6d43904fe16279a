"""The changes of the page ARCHITECTURE.md, "Files that a change touches", as edits of this tree."""

from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """A place that a person edits: `added` comes behind `anchor`, a text that the file has once; at its end without.

    `check` is the test that fails without this edit, and `output` a text that it prints then.
    """

    file: str
    anchor: str
    added: str
    check: str
    output: str

    def edit(self, root: Path) -> None:
        """Make the edit in a copy of this tree."""
        path = root / self.file
        text = path.read_text()
        assert not self.anchor or text.count(self.anchor) == 1, (
            f"{self.file} has {self.anchor!r} not once: change it here"
        )
        at = text.index(self.anchor) + len(self.anchor) if self.anchor else len(text)
        path.write_text(text[:at] + self.added + text[at:])


class Change(NamedTuple):
    """A change: the first words of its row on the page, the most places that it may need, and these places."""

    row: str
    most: int
    places: tuple[Place, ...]


FIELD = Change(
    "a field of TFJob",
    3,
    (
        Place(
            "tfoperator/api/v1/parts/run_policy.py",
            '    """Policies for the whole job, such as limits, cleanup and suspension."""\n',
            '\n    example_seconds: Annotated[int | None, Field("Seconds after the deadline.", ge=1)] = None\n',
            "tests/unit/controller/plan/test_life.py::test_the_deadline_fires_by_itself",
            "'RunPolicy' object has no attribute 'example_seconds'",
        ),
        Place(
            "tfoperator/controller/plan/facts/facts.py",
            "        deadline, start = self.job.spec.policy.active_deadline_seconds, self.start\n",
            "        deadline = deadline and deadline + (self.job.spec.policy.example_seconds or 0)\n",
            "tests/unit/api/v1/test_types.py::test_every_field_of_a_spec_is_read_somewhere",
            "RunPolicy.example_seconds",
        ),
        Place(
            "docs/tfjob.md",
            "",
            "\n## `exampleSeconds`\n\n```yaml\nspec:\n  runPolicy:\n    exampleSeconds: 60\n```\n",
            "tests/unit/docs/test_pages.py::test_the_page_about_jobs_has_every_field_of_ours",
            "spec.runPolicy.exampleSeconds",
        ),
    ),
)

OPTION = Change(
    "an option of the operator",
    2,
    (
        Place(
            "tfoperator/operator/options/settings.py",
            '    threadiness: Annotated[int, Option("number of jobs that are synced at the same time", '
            "integers(1, 256))] = 8\n",
            '    example_delay: Annotated[float, Option("a delay of an example", DURATIONS)] = 0.0\n',
            "tests/unit/operator/options/test_settings.py::test_options_of_plans_are_made_from_the_operators_options",
            "example_delay",
        ),
        Place(
            "tfoperator/controller/plan/values/observed.py",
            "    default_clean_pod_policy: str\n",
            "    example_delay: float\n",
            "tests/unit/operator/options/test_settings.py::"
            "test_every_option_is_read_by_the_operator_or_is_one_of_plans",
            "example_delay",
        ),
    ),
)

CONDITION = Change(
    "a condition",
    2,
    (
        Place(
            "tfoperator/api/v1/condition_types.py",
            """            meaning="once the job has failed for good; this condition does not change any more",
            is_peers=True,
            concern=Concern.ALARM,
            at_end=Fate.STAYS,
            while_held=Fate.STAYS,
        ),
    )
""",
            """    EXAMPLE = (
        "Example",
        ConditionTraits(meaning="while no data comes", when_false=DeclaredReason("DataComes", "Data comes.")),
    )
""",
            "tests/unit/controller/plan/training/test_divergence.py",
            "EXAMPLE",
        ),
        Place(
            "tfoperator/controller/plan/training/divergence.py",
            """        yield observation(ConditionType.DIVERGED, message, holds=False)
""",
            """    yield observation(ConditionType.EXAMPLE, "Data comes.", holds=False)
""",
            "tests/unit/api/v1/test_condition_types.py::test_each_condition_is_set_by_a_rule_of_the_plan",
            "EXAMPLE",
        ),
    ),
)

CHANGES = (FIELD, OPTION, CONDITION)
