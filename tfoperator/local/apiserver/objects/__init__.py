"""The rules for objects: types, names, metadata, defaults, validation, and custom resources with their schema.

A `Strategy` contains the differences between kinds, in the terms of kube-apiserver's registry strategies. Pure, except
for random names and addresses.
"""
