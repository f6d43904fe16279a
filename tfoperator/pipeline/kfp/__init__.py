"""Pipelines of Kubeflow Pipelines v2: the IR that its SDK compiles, as our steps, values, conditions and loops.

TFX writes the same IR: `jobs` has its PipelineJobs and older spellings, and `resolvers` its resolvers.

`spec` has the IR's fields, and refuses others; `container` has its executors with their `resources`, and `reading`
makes one graph of its nested graphs, with the help of `parts`. `options` has the Kubernetes options of tasks, which
`pod_options` lays over pods and `machine_options` over containers and processes of this machine; `claims` makes and
deletes claims, and `settings` chooses by the launcher. The IR: https://github.com/kubeflow/pipelines
(pipeline_spec.proto).
"""
