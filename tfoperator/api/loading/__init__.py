"""Conversion between text and objects: YAML and JSON, as kubectl reads them.

`reader` makes objects of the data that `tfoperator.base.yamldata` reads, with the line of every field; `writer` prints
data that every reader understands in the same way.
"""

from tfoperator.api.loading.reader import Manifest, ManifestError, load_manifests, parse_manifests, to_yaml

__all__ = ["Manifest", "ManifestError", "load_manifests", "parse_manifests", "to_yaml"]
