"""The facts that Kubernetes defines about pods. Pure.

`types` has every field with its type and meaning. `rules` has the rules by which API servers refuse pods. `images` has
the rules for image names that kubelets can read, and `name_rules` the rules for names of all objects.
"""
