"""What Kubernetes knows of pods. Pure.

`types` has every field with its type and meaning, `rules` what API servers refuse, `images` the names of images that
kubelets can read, and `name_rules` the rules for names of all objects.
"""
