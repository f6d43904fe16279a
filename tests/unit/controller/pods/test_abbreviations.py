"""Lists of hosts that are said in short: put together as a kubelet does, they are what they were."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hack.pod_environment import variables
from tests.unit.controller.builders import label, make_job, planned
from tfoperator.controller.pods.cluster import Abbreviations
from tfoperator.local.node.expansion import expand

HOSTS = [f"mnist-worker-{index}.mnist.ns.svc:2222" for index in range(1000)]


def read(text: str, abbreviations: Abbreviations) -> str:
    """The text as a program gets it."""
    env = [{"name": name, "value": value} for name, value in {**abbreviations.variables, "TEXT": text}.items()]
    return variables({"env": env})["TEXT"]


PIECES = st.text(st.sampled_from('a1-.:"\\\\é'), max_size=6)


@given(
    st.text(st.sampled_from('a1-."\\\\é'), min_size=3, max_size=20),
    st.text(st.sampled_from('a1-."\\\\é'), min_size=3, max_size=20),
    st.lists(PIECES, max_size=5, unique=True),
    st.integers(min_value=500, max_value=1500),
    st.sampled_from([",", '","']),
)
@example("a1", "a1a1a1", ["1", "11", "a1"], 1500, ",")
@example("aaaa", "aaaa", ["", "a", "aaaa"], 1500, '","')
def test_nothing_is_lost_whatever_the_texts_are(start: str, end: str, odd: list[str], copies: int, glue: str) -> None:
    own = [*odd, *map(str, range(copies))]
    texts = [f"{start}{one}{end}" for one in own]
    abbreviations = Abbreviations()
    said = abbreviations.join(texts, glue)
    whole = glue.join(texts)
    assert read(said, abbreviations) == whole
    if len(start + glue + end) >= 10 and len(whole) > 4096:
        assert abbreviations.variables
        assert len(said) < len(whole)


def test_what_a_kubelet_would_replace_is_not_abbreviated() -> None:
    texts = [*HOSTS, "$(HOME)-worker.ns.svc:2222"]
    abbreviations = Abbreviations()
    assert abbreviations.join(texts, ",") == ",".join(texts)
    assert abbreviations.variables == {}


@pytest.mark.parametrize(("taken", "names"), [((), ["_", "__"]), (("_", "___", "A"), ["__", "____"])])
def test_what_differs_has_a_name_of_its_own_that_nobody_else_has(taken: Collection[str], names: Sequence[str]) -> None:
    abbreviations = Abbreviations(taken)
    for glue in (",", '","', ","):
        assert read(abbreviations.join(HOSTS, glue), abbreviations) == glue.join(HOSTS)
    assert list(abbreviations.variables) == names


def pods(**spec: Any) -> dict[str, Any]:
    job = make_job({"PS": 1, "Worker": 200}, network="PerJob", clusterArguments=True, **spec)
    made = planned(job, services=()).creations("pods")
    return {label(create.replica): create.body["spec"]["containers"][0] for create in made}


@pytest.mark.parametrize("dynamic", [True, False])
def test_arguments_are_said_in_short_as_well(dynamic: bool) -> None:
    worker = pods(enableDynamicWorker=dynamic)["Worker-7"]
    env = variables(worker)
    assert list(env) == (["_", "TF_CONFIG"] if dynamic else ["_", "__", "TF_CONFIG"])
    assert max(map(len, worker["args"])) < 1700
    hosts = ["--ps_hosts=mnist-ps-0.mnist.ns.svc:2222", f"--worker_hosts={','.join(HOSTS[:200])}"]
    assert [expand(one, env) for one in worker["args"]] == [*hosts, "--job_name=worker", "--task_index=7"]


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ({"args": ["--tag=$(_)"]}, ["__", "___"]),
        ({"command": ["sh", "-c", "echo $(__)"]}, ["_", "___"]),
        ({"env": [{"name": "A", "value": "$(_)$(___)"}]}, ["__", "____"]),
        ({"env": [{"name": "_", "value": "mine"}, {"name": "__", "valueFrom": {}}]}, ["___", "____"]),
        ({"envFrom": [{"configMapRef": {"name": "s"}}]}, ["_TF_HOSTS", "_TF_HOSTS_"]),
        ({"envFrom": [{"configMapRef": {"name": "s"}}], "args": ["$(_TF_HOSTS)"]}, ["_TF_HOSTS_", "_TF_HOSTS__"]),
        ({"envFrom": []}, ["_", "__"]),
    ],
    ids=["in arguments", "in the command", "in a variable", "its own", "from elsewhere", "both", "from nowhere"],
)
def test_no_variable_that_a_template_may_mean_is_taken(own: dict[str, Any], names: list[str]) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i", **own}]}}
    job = make_job(
        {"PS": 1, "Worker": {"replicas": 200, "template": template}}, network="PerJob", clusterArguments=True
    )
    for create in planned(job, services=()).creations("pods"):
        *given, _, _, _ = env = create.body["spec"]["containers"][0]["env"]
        assert [one["name"] for one in env[-3:]] == [*names, "TF_CONFIG"]
        assert given == (own.get("env", []) if label(create.replica) != "PS-0" else [])
