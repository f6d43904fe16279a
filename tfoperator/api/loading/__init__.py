"""How does a text become objects, and objects a text? YAML and JSON, as kubectl understands them.

`reader` makes objects of what `tfoperator.base.yamldata` reads, with the line of every field; `writer` prints data that
every reader understands in the same way.
"""

from tfoperator.api.loading.reader import Manifest, ManifestError, load_manifests, parse_manifests, to_yaml

__all__ = ["Manifest", "ManifestError", "load_manifests", "parse_manifests", "to_yaml"]
