from typing import Any

import msgspec

from tfoperator.api.replicas.names import ANNOTATION_RESTARTS
from tfoperator.cli.views.run.view import KnownRestarts, after
from tfoperator.kube.views.objects import Pod


def pod(*, before: str = "", **container: Any) -> Pod:
    annotations = {ANNOTATION_RESTARTS: before} if before else {}
    statuses = [{"name": "tensorflow", **container}] if container else []
    plain = {"metadata": {"annotations": annotations}, "status": {"containerStatuses": statuses}}
    return msgspec.convert(plain, Pod)


def sentences_of(*pods: Pod) -> list[str]:
    restarts, sentences = KnownRestarts(), []
    for current in pods:
        restarts, sentence = after(restarts, current)
        sentences.append(sentence)
    return sentences


def test_a_pod_that_is_made_again_has_an_exit_code_unless_it_was_deleted_and_a_sidecars_start_is_no_news() -> None:
    running = {"running": {}}
    again = sentences_of(pod(state={"terminated": {"exitCode": 137}}), pod(before="1"), pod(before="1", state=running))
    assert again == ["", "exited with 137, started again (1)", ""]
    assert sentences_of(pod(state=running), pod(before="1"))[-1] == "started again (1)"
    assert sentences_of(pod(state=running), pod(before="not a number"))[-1] == ""
    ended = {"terminated": {"exitCode": 4}}
    assert sentences_of(pod(name="proxy", state=ended), pod(name="proxy", restartCount=1, lastState=ended)) == ["", ""]
