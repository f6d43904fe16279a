"""The CustomResourceDefinition of TFJobs for API servers, made from the types. Pure.

`structs` turns a type into a schema, `fields` adds what a type lacks (descriptions, bounds, defaults, rules),
`cel_rules` has the rules about names and replica types, `v1alpha2` derives that version's schema from v1's, and `crd`
combines them. `served` compares them with what an API server serves: the operator's process loads the rest for it.
"""
