import pytest

from tests.support.fake_api import api_error
from tfoperator.kube.http.sending.exec import Executed
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.logs.stacks import PodStacks, stacks_printed, stacks_refused, stacks_told

TEXT = "Process 7:\n  File train.py\n"


def test_what_is_printed_are_the_stacks_and_who_has_none_says_why() -> None:
    assert stacks_printed(Executed(TEXT, "a warning", 0)) == stacks_printed(Executed(TEXT, "", None)) == PodStacks(TEXT)
    assert stacks_told(TEXT) == PodStacks(TEXT)
    assert stacks_told("No stacks: it does not run.\n") == PodStacks(problem="it does not run.")
    assert stacks_refused(api_error(403), "you").problem.startswith(
        "you may not run commands in the job's pods (pods/exec)"
    )
    assert (
        stacks_refused(TransportError("no route"), "you").problem == "a command can't be run in its container: no route"
    )


@pytest.mark.parametrize(
    ("ran", "problem"),
    [
        (Executed("", "python3: No module named tfoperator", 1), "its image has no tfoperator.progress"),
        (Executed("", "first\nno process here can print\n", 1), "no process here can print"),
        (Executed("", 'exec: "python3": executable file not found', 126), "executable file not found"),
        (Executed("", "", 1), "its program did not answer"),
    ],
)
def test_why_there_are_none_is_one_sentence(ran: Executed, problem: str) -> None:
    stacks = stacks_printed(ran)
    assert stacks.text == ""
    assert problem in stacks.problem
    assert "\n" not in stacks.problem
