import json

from tests.unit.pipeline.compiling.plans import graph, plan, pods
from tfoperator.pipeline.compiling.argo import argo_workflow
from tfoperator.pipeline.compiling.launch_plan import launch_plan


def test_tasks_follow_the_channels_and_values_reach_no_template_as_they_are() -> None:
    made = argo_workflow(plan(note="{{workflow.uid}} $(HOME)", rate=0.1))
    spec = made["spec"]
    entry, step, finish = spec["templates"]
    assert [(task["name"], task.get("dependencies")) for task in entry["dag"]["tasks"]] == [("A", None), ("B-x", ["A"])]
    assert entry["dag"]["tasks"][1]["arguments"]["parameters"] == [{"name": "step", "value": "B.x"}]
    assert [parameter["value"] for parameter in spec["arguments"]["parameters"]] == ["{{workflow.uid}} $(HOME)", "0.1"]
    assert "HOME" not in json.dumps(spec["templates"])
    assert "--encoded-param=note={{=sprig.b64enc(workflow.parameters['note'])}}" in step["container"]["args"]
    assert finish["container"]["args"][:2] == ["finish", "{{workflow.uid}}"]
    assert (spec["onExit"], spec["parallelism"], entry["dag"]["failFast"]) == ("finish", 4, False)


def test_a_template_has_a_name_and_a_workflow_gets_one_that_is_valid() -> None:
    long = launch_plan(graph({"A": []}, name="9_Words." + "x" * 180), {}, [], pods())
    workflow, template = (argo_workflow(long, template=kind) for kind in (False, True))
    assert workflow["metadata"]["generateName"] == "step-9-words-" + "x" * 37 + "-"
    assert (template["kind"], template["metadata"]["name"]) == ("WorkflowTemplate", "step-9-words-" + "x" * 37)
    assert len(template["metadata"]["labels"]["tfoperator.launcher/pipeline"]) == 63


def test_a_thousand_steps_fit_into_an_object_of_the_api() -> None:
    name = "Some.quite-long_name.of.a.step"
    steps = {f"{name}.{n}": [f"{name}.{n - 1}"] if n else [] for n in range(1000)}
    made = argo_workflow(plan(steps))
    assert len({task["name"] for task in made["spec"]["templates"][0]["dag"]["tasks"]}) == 1000
    assert len(json.dumps(made)) < 500_000
