"""The rules for objects: types, names, metadata, defaults, validation, and custom resources with their schema.

A `Strategy` contains the differences between kinds, as in kube-apiserver's registry strategies. The code is pure,
except for random names and addresses, and the file `builtin_schemas.json` of this package.
"""
