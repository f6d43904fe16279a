"""Pipelines of Kubeflow Pipelines v2.

The IR (intermediate representation) is the YAML or JSON that the Kubeflow SDK `kfp` compiles from a pipeline. The
package converts the IR into our steps, values, conditions and loops. TFX writes the same IR: `jobs` handles TFX's
PipelineJobs and older spellings, and `resolvers` handles TFX's resolvers.

`spec` has the fields of the IR, and refuses any other field. `container` has the executors with their `resources`.
`reading` makes one graph from the IR's nested graphs, with the help of `parts`. `options` has the Kubernetes options of
tasks. `pod_options` applies them to pods, and `machine_options` applies them to containers and processes of this
machine. `claims` makes and deletes claims, and `settings` chooses the right module for each launcher. The IR is defined
in https://github.com/kubeflow/pipelines (pipeline_spec.proto).
"""
