"""The CustomResourceDefinition of TFJobs for API servers, made from the types. Pure.

`structs` turns a type into a schema. `fields` adds the parts that a type does not have (descriptions, bounds, defaults,
rules). `cel_rules` has the rules about names and replica types. `v1alpha2` derives the schema of that version from the
schema of v1. `crd` combines all of them. `served` compares the CRD with the fields that an API server serves; the
operator's process loads the other modules only for `served`.
"""
