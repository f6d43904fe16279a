"""Conversion between text and objects: YAML and JSON, as kubectl reads them.

`reader` makes objects from the data that `tfoperator.base.yamldata` reads, and adds the line of each field. `writer`
writes data in a form that all YAML readers understand in the same way.
"""

from tfoperator.api.loading.reader import Manifest, ManifestError, load_manifests, parse_manifests, to_yaml

__all__ = ["Manifest", "ManifestError", "load_manifests", "parse_manifests", "to_yaml"]
