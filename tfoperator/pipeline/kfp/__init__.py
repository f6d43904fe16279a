"""Pipelines of Kubeflow Pipelines v2.

The IR (intermediate representation) is the YAML or JSON that the Kubeflow SDK `kfp` compiles from a pipeline. The
package converts the IR into our steps, values, conditions and loops. The IR is defined in
https://github.com/kubeflow/pipelines (pipeline_spec.proto). The modules:

- `spec` has the supported fields of the IR, and refuses any other field.
- `reading` makes one graph from the IR's nested graphs, with the help of `task_inputs` and `parts`.
- `container` has the executors, and `resources` the resources of their containers.
- `options` has the Kubernetes options of tasks. `pod_options` applies them to pods, and `machine_options` applies them
  to containers and processes of this machine.
- `claims` makes and deletes persistent volume claims.
- `settings` chooses the right module for each launcher.
- `demands` lists the options for which the user must give permission.
- `jobs` converts TFX's PipelineJobs and the spellings of schema 2.0.0. `resolvers` converts TFX's resolvers.
"""
