"""The parts of a TFJob that a cache keeps: their size has a limit, whatever the author of the job writes.

An API server accepts objects of up to 1.5 MB, and one tenant can create a thousand of them. Without a limit, these jobs
could fill the operator's memory. The cache keeps only a hash of templates that are too large. For a job that needs no
templates now, such as a suspended job, the cache keeps only hashes of all templates. Code that finds a hash in place of
a template that it needs (`templates.NotKept`) reads the job from the API server again. Validation needs the templates,
so a job whose templates the cache drops is validated while it is decoded. The cache keeps all other members of a spec,
which are normally small. If these members have more than MAX_SPEC bytes, the operator refuses the job.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from tfoperator.api.defaults import default
from tfoperator.api.fields.problems import errors
from tfoperator.api.replicas.templates import hash_of
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.types import TFJob, TFJobSpec, decode_tfjob
from tfoperator.api.validation.job import validate
from tfoperator.kube.views.objects import compacting

MAX_TEMPLATES, MAX_SPEC = 16 << 10, 64 << 10
"""The limits in bytes, as JSON: for all templates of a job together (most jobs have 1 to 5 KB), and for its spec
without the templates.
"""


class TrimmedJob(TFJob, frozen=True, rename="camel"):
    """A TFJob with hashes in place of its templates, and with the errors that validation found in the whole job.

    For a job that has ended, `problems` is empty.
    """

    problems: tuple[str, ...] = ()


def problems_of(job: TFJob) -> tuple[str, ...]:
    """Return the errors of a defaulted job as text: the first 20, each of at most 1,000 characters."""
    return (
        job.problems
        if isinstance(job, TrimmedJob)
        else tuple(str(problem)[:1000] for problem in errors(validate(job))[:20])
    )


def without_templates(spec: TFJobSpec) -> TFJobSpec:
    """Return `spec` with hashes in place of its templates."""
    replace, specs, data_service = msgspec.structs.replace, spec.tf_replica_specs.items(), spec.data_service
    return replace(
        spec,
        data_service=data_service and replace(data_service, template=hash_of(data_service.template)),
        tf_replica_specs={
            key: replica and replace(replica, template=hash_of(replica.template)) for key, replica in specs
        },
    )


_decode = compacting(
    decode_tfjob,
    lambda annotations: dict(
        islice((annotation for annotation in annotations.items() if len(annotation[1]) <= 1024), 64)
    ),
)


def decode_job_for_cache(data: bytes) -> TFJob:
    """Decode a TFJob as `decode_tfjob` does, but keep at most 64 annotations, without those over 1,024 characters.

    Templates become hashes if they are too large, if the job is suspended, or if it has ended and has no TensorBoard.
    If the spec without its templates has more than MAX_SPEC bytes, return a job with a `decode_error` and without the
    spec.
    """
    job = _decode(data)
    spec = job.spec
    ended = spec.tensor_board is None and final_condition(job) is not None
    size = sum(memoryview(replica.template).nbytes for replica in spec.tf_replica_specs.values() if replica is not None)
    size += 0 if spec.data_service is None else memoryview(spec.data_service.template).nbytes
    if ended or size > MAX_TEMPLATES or spec.suspended:
        problems = () if ended else problems_of(default(job))
        job = TrimmedJob(job.metadata, without_templates(spec), job.status, job.decode_error, problems)
    if len(data) > MAX_SPEC and len(msgspec.json.encode(without_templates(spec))) > MAX_SPEC:
        reason = f"spec: must have at most {MAX_SPEC} bytes without its pod templates"
        return TFJob(job.metadata, status=job.status, decode_error=reason)
    return job
