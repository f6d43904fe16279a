"""External YAML as plain JSON data within bounds: one reader for every file and body.

`reader` builds the data from the parser's events; `scalars` interprets plain words.
"""
