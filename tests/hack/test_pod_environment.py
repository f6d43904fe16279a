"""Variables that refer to others, put together from another hand than the laptop's runtimes have."""

from hypothesis import example, given
from hypothesis import strategies as st

from hack.pod_environment import variables
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.node.expansion import environment

NAMES = st.sampled_from(["A", "B", "_", "__"])
PARTS = st.lists(st.sampled_from(["$", "$$", "$(", ")", "$(A)", "$(B)", "$(_)", "$(__)", "x"]), max_size=8)
VALUES = st.one_of(st.just({}), PARTS.map(lambda parts: {"value": "".join(parts)}))
ENV = st.lists(st.builds(lambda name, value: {"name": name, **value}, NAMES, VALUES), max_size=5)


@given(ENV)
@example([{"name": "_", "value": "a$$"}, {"name": "B", "value": "1$(_)2$(C)$(_)"}])
def test_it_agrees_with_what_containers_get_on_a_laptop(env: list[dict[str, str]]) -> None:
    pod = view(manifest("p", container(env=env)))
    assert variables({"env": env}) == environment(pod, pod.spec.containers[0], lambda kind, name: None)


def test_what_comes_from_elsewhere_has_no_value_of_its_own() -> None:
    elsewhere = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    env = [{"name": "A", "value": "before"}, elsewhere, {"name": "B", "value": "$(A)"}]
    assert variables({"env": env}) == {"B": "$(A)"}
    assert variables({}) == {}
