from __future__ import annotations

from typing import Any

from tfoperator.api.migration import read_cluster
from tfoperator.kube.errors import ForbiddenError, Status
from tfoperator.kube.options import ListOptions
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ListPage


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


def test_whoever_may_only_list_tfjobs_is_told_what_was_not_looked_at() -> None:
    facts = read_cluster(Closed(), "team")  # type: ignore[arg-type]
    assert [job["metadata"]["name"] for job in facts.jobs] == ["mnist"]
    assert (facts.pods, facts.crd, facts.operators, facts.webhooks) == (None, None, (), ())
    assert len(facts.unread) == 4 + 5
    assert {"Deployments", "pods of TFJobs", "the CRD of pytorchjobs"} <= {one.what for one in facts.unread}
