import json
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hack.pod_environment import variables
from tests.support.plan_options import plan_options
from tests.unit.controller.builders import ReadablePlan, label, make_job, planned
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.controller.pods.cluster import Abbreviations
from tfoperator.local.node.expansion import expand


def tf_configs(replicas: dict[str, Any], options: PlanOptions | None = None, **spec: Any) -> dict[str, str | None]:
    result = planned(make_job(replicas, **spec), services=(), options=options or plan_options())
    configs = {}
    for create in result.creations("pods"):
        env = create.body["spec"]["containers"][0].get("env", [])
        values = [e["value"] for e in env if e["name"] == "TF_CONFIG"]
        assert len(values) <= 1
        configs[label(create.replica)] = values[0] if values else None
    return configs


@pytest.mark.parametrize(
    ("replicas", "domain", "expected"),
    [
        ({"Worker": 1}, "", None),
        ({"Worker": 1}, "tf.training.com", None),
        (
            {"Worker": 1, "PS": 1},
            "tf.training.org",
            '{"cluster":{"ps":["mnist-ps-0.ns.svc.tf.training.org:2222"],'
            '"worker":["mnist-worker-0.ns.svc.tf.training.org:2222"]},'
            '"task":{"type":"worker","index":0},"environment":"cloud"}',
        ),
        (
            {"Worker": 1, "PS": 1, "Evaluator": 1},
            "",
            '{"cluster":{"evaluator":["mnist-evaluator-0.ns.svc:2222"],"ps":["mnist-ps-0.ns.svc:2222"],'
            '"worker":["mnist-worker-0.ns.svc:2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}',
        ),
    ],
)
def test_it_reads_like_the_go_operators(replicas: dict[str, Any], domain: str, expected: str | None) -> None:
    assert tf_configs(replicas, plan_options(cluster_domain=domain))["Worker-0"] == expected


@pytest.mark.parametrize("operators", [True, False])
@pytest.mark.parametrize("jobs", [True, False])
def test_a_job_says_for_itself_whether_its_evaluators_are_in_the_cluster(jobs: bool, operators: bool) -> None:
    options = plan_options(evaluator_in_cluster=operators)
    texts = tf_configs({"Chief": 1, "Evaluator": 1}, options, evaluatorInCluster=jobs)
    for text in texts.values():
        assert ("evaluator" in json.loads(text or "")["cluster"]) is jobs


def test_dynamic_workers_know_themselves_the_servers_and_the_chief() -> None:
    texts = tf_configs({"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}, enableDynamicWorker=True)
    configs = {name: json.loads(text or "") for name, text in texts.items()}
    servers = ["mnist-ps-0.ns.svc:2222", "mnist-ps-1.ns.svc:2222"]
    chief = ["mnist-chief-0.ns.svc:2222"]
    assert configs["Worker-1"] == {
        "cluster": {"worker": {"1": "mnist-worker-1.ns.svc:2222"}, "ps": servers, "chief": chief},
        "task": {"type": "worker", "index": 1},
    }
    assert configs["Chief-0"]["cluster"] == {"worker": {}, "ps": servers, "chief": chief}
    assert configs["PS-1"]["cluster"] == {"worker": {}, "ps": servers[1:]}
    assert configs["Evaluator-0"]["cluster"] == {"worker": {}, "ps": [], "chief": chief}


LONG = "a-name-as-long-as-teams-give-them-who-say-all-in-it"


@pytest.mark.parametrize(
    "replicas",
    [{"Worker": 2}, {"Worker": 170}, {"PS": 3, "Worker": 171}, {"PS": 172, "Worker": 173, "Evaluator": 1}],
    ids=str,
)
@pytest.mark.parametrize("name", ["m", "mnist", LONG])
@pytest.mark.parametrize("network", ["PerReplica", "PerJob"])
def test_programs_read_the_cluster_however_a_pod_says_it(replicas: dict[str, int], name: str, network: str) -> None:
    within = f".{name}.ns.svc:2222" if network == "PerJob" else ".ns.svc:2222"
    hosts = {
        kind.lower(): [f"{name}-{kind.lower()}-{index}{within}" for index in range(count)]
        for kind, count in sorted(replicas.items())
    }
    for create in planned(make_job(replicas, name=name, network=network), services=()).creations("pods"):
        (container,) = create.body["spec"]["containers"]
        assert ('"_"' in json.dumps(container["env"])) == (network == "PerJob" and replicas["Worker"] > 2)
        kind, index = create.replica
        expected = {"cluster": hosts, "task": {"type": kind.lower(), "index": index}, "environment": "cloud"}
        assert json.loads(variables(container)["TF_CONFIG"]) == expected


# As arguments.


def plan_new(replicas: dict[str, Any], options: PlanOptions | None = None, **spec: Any) -> ReadablePlan:
    job = make_job(replicas, **({"clusterArguments": True} | spec))
    return planned(job, services=(), options=options or plan_options())


def arguments(result: ReadablePlan) -> dict[str, list[str] | None]:
    """The arguments of each replica's first container."""
    return {label(c.replica): c.body["spec"]["containers"][0].get("args") for c in result.creations("pods")}


def test_each_replica_is_told_of_all_and_which_it_is() -> None:
    hosts = [
        "--ps_hosts=mnist-ps-0.ns.svc:2222",
        "--worker_hosts=mnist-worker-0.ns.svc:2222,mnist-worker-1.ns.svc:2222",
    ]
    assert arguments(plan_new({"PS": 1, "Worker": 2})) == {
        "PS-0": [*hosts, "--job_name=ps", "--task_index=0"],
        "Worker-0": [*hosts, "--job_name=worker", "--task_index=0"],
        "Worker-1": [*hosts, "--job_name=worker", "--task_index=1"],
    }
    # A single replica gets them, too, since its program parses the same; a job can turn them off.
    alone = ["--worker_hosts=mnist-worker-0.ns.svc:2222", "--job_name=worker", "--task_index=0"]
    assert arguments(plan_new({"Worker": 1})) == {"Worker-0": alone}
    assert arguments(plan_new({"PS": 1, "Worker": 1}, clusterArguments=False)) == {"PS-0": None, "Worker-0": None}


# Lists of hosts in a short form: put together as a kubelet does, they are the same as before.

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
    texts = [f"{start}{piece}{end}" for piece in own]
    abbreviations = Abbreviations()
    joined = abbreviations.join(texts, glue)
    whole = glue.join(texts)
    assert read(joined, abbreviations) == whole
    if len(start + glue + end) >= 10 and len(whole) > 4096:
        assert abbreviations.variables
        assert len(joined) < len(whole)


def test_what_a_kubelet_would_replace_is_not_abbreviated() -> None:
    texts = [*HOSTS, "$(HOME)-worker.ns.svc:2222"]
    abbreviations = Abbreviations()
    assert (abbreviations.join(texts, ","), abbreviations.variables) == (",".join(texts), {})


@pytest.mark.parametrize(("taken", "names"), [((), ["_", "__"]), (("_", "___", "A"), ["__", "____"])])
def test_what_differs_has_a_name_of_its_own_that_nobody_else_has(taken: Collection[str], names: Sequence[str]) -> None:
    abbreviations = Abbreviations(taken)
    for glue in (",", '","', ","):
        assert read(abbreviations.join(HOSTS, glue), abbreviations) == glue.join(HOSTS)
    assert list(abbreviations.variables) == names


@pytest.mark.parametrize("dynamic", [True, False])
def test_arguments_are_said_in_short_as_well(dynamic: bool) -> None:
    spec = {"network": "PerJob", "clusterArguments": True, "enableDynamicWorker": dynamic}
    made = planned(make_job({"PS": 1, "Worker": 200}, **spec), services=()).creations("pods")
    [worker] = [creation.body["spec"]["containers"][0] for creation in made if label(creation.replica) == "Worker-7"]
    env = variables(worker)
    assert list(env) == (["_", "TF_CONFIG"] if dynamic else ["_", "__", "TF_CONFIG"])
    assert max(map(len, worker["args"])) < 1700
    hosts = ["--ps_hosts=mnist-ps-0.mnist.ns.svc:2222", f"--worker_hosts={','.join(HOSTS[:200])}"]
    assert [expand(argument, env) for argument in worker["args"]] == [*hosts, "--job_name=worker", "--task_index=7"]


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
        assert [variable["name"] for variable in env[-3:]] == [*names, "TF_CONFIG"]
        assert given == (own.get("env", []) if label(create.replica) != "PS-0" else [])
