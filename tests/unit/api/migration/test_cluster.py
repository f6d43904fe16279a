from typing import Any

from tfoperator.api.migration.cluster import ClusterFacts, Unread, cluster_findings
from tfoperator.api.migration.findings import Effort, Finding
from tfoperator.api.migration.reading import read_cluster
from tfoperator.api.schema.crd import crd
from tfoperator.kube.protocol.errors import ForbiddenError, Status
from tfoperator.kube.protocol.options import ListOptions
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ListPage


def deployment(replicas: int = 1, *args: str) -> dict[str, Any]:
    containers = [{"name": "training-operator", "command": ["/manager"], "args": list(args)}]
    return {
        "metadata": {"name": "training-operator", "namespace": "kubeflow"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
    }


def webhook(resource: str, policy: str = "Fail") -> dict[str, Any]:
    rule = {"apiGroups": ["kubeflow.org"], "resources": [resource]}
    return {
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
        "webhooks": [{"name": "validator.tfjob", "failurePolicy": policy, "rules": [rule]}],
    }


def findings(**facts: Any) -> dict[str, Finding]:
    return {finding.field: finding for finding in cluster_findings(ClusterFacts(**facts)) if finding.field != "RBAC"}


def test_an_operator_that_runs_has_to_be_stopped_or_to_leave_tfjobs_alone_where_other_kinds_need_it() -> None:
    finding = findings(operators=(deployment(),))["Deployment kubeflow/training-operator"]
    assert finding.effort is Effort.ACTION
    assert "kubectl -n kubeflow scale deployment/training-operator --replicas=0" in finding.todo
    [finding] = findings(operators=(deployment(0),)).values()
    assert finding.effort is Effort.NOTE
    kinds = ("pytorchjobs",)
    [finding] = findings(operators=(deployment(),), other_kinds=kinds).values()
    assert (finding.effort, "--enable-scheme" in finding.todo) == (Effort.ACTION, True)
    [finding] = findings(operators=(deployment(1, "--enable-scheme=pytorchjob"),), other_kinds=kinds).values()
    assert finding.effort is Effort.NOTE
    both = deployment(1, "--enable-scheme=pytorchjob", "--enable-scheme=tfjob")
    [finding] = findings(operators=(both,), other_kinds=kinds).values()
    assert finding.effort is Effort.ACTION


def test_a_webhook_that_would_refuse_every_job_has_to_go() -> None:
    assert [finding.effort for finding in findings(webhooks=(webhook("tfjobs"),)).values()] == [Effort.ACTION]
    assert [finding.effort for finding in findings(webhooks=(webhook("tfjobs", "Ignore"),)).values()] == [Effort.CHANGE]
    assert findings(webhooks=(webhook("pytorchjobs"),)) == {}


def test_the_go_operators_crd_is_to_be_replaced_and_versions_that_were_stored_once_to_be_rewritten_in_ours() -> None:
    theirs = {"spec": {"names": {"kind": "TFJob"}}, "status": {"storedVersions": ["v1"]}}
    assert [finding.effort for finding in findings(crd=theirs).values()] == [Effort.CHANGE]
    assert findings(crd=crd()) == {}
    stored = {**crd(), "status": {"storedVersions": ["v1alpha2", "v1"]}}
    [finding] = findings(crd=stored).values()
    assert (finding.effort, "v1alpha2" in finding.message) == (Effort.ACTION, True)


def test_what_could_not_be_read_is_told_and_what_was_not_looked_at_for_want_of_a_right() -> None:
    [finding] = findings(unread=(Unread("Deployments", "it is forbidden"),)).values()
    assert finding == Finding(Effort.NOTE, "Deployments", "could not be checked: it is forbidden", "look yourself")
    facts = read_cluster(Closed(), "team")  # type: ignore[arg-type]
    assert [job["metadata"]["name"] for job in facts.jobs] == ["mnist"]
    assert (facts.pods, facts.crd, facts.operators, facts.webhooks) == (None, None, (), ())
    assert len(facts.unread) == 4 + 5
    assert {"Deployments", "pods of TFJobs", "the CRD of pytorchjobs"} <= {unread.what for unread in facts.unread}


class Closed:
    """An API server where only TFJobs may be listed."""

    def list(self, resource: Resource, namespace: str, decode: Any, options: ListOptions, **_: Any) -> ListPage[Any]:
        if resource.plural != "tfjobs":
            raise refusal(resource)
        return ListPage((decode(b'{"metadata": {"name": "mnist"}}'),), "1")

    def get(self, resource: Resource, *_: Any) -> Any:
        raise refusal(resource)


def refusal(resource: Resource) -> ForbiddenError:
    return ForbiddenError(Status(code=403, message=f"{resource.plural} is forbidden"))
