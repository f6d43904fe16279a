"""External YAML as plain JSON data within bounds: one reader for every file and body.

`reader` builds the data from the parser's events; `scalars` interprets plain words.
"""

from tfoperator.base.yamldata.reader import (
    MAX_BYTES,
    Document,
    YamlBoundsError,
    YamlError,
    read_documents,
    read_value,
    read_value_of_file,
)
from tfoperator.base.yamldata.scalars import is_plain_text

__all__ = [
    "MAX_BYTES",
    "Document",
    "YamlBoundsError",
    "YamlError",
    "is_plain_text",
    "read_documents",
    "read_value",
    "read_value_of_file",
]
