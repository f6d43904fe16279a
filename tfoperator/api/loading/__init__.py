"""Conversion between text and objects: YAML and JSON, as kubectl reads them.

`reader` makes objects from the data that `tfoperator.base.yamldata` reads, and adds the line of each field. `reader`
also writes YAML in a form that all YAML readers understand in the same way. `templates` recognizes Helm templates.
"""

from tfoperator.api.loading.reader import Manifest, ManifestError, load_manifests, parse_manifests, to_yaml

__all__ = ["Manifest", "ManifestError", "load_manifests", "parse_manifests", "to_yaml"]
