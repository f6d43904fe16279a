"""Reads external YAML as plain JSON data of limited size: one reader for every file and every request body.

`reader` makes the data from the parser's events; `scalars` interprets words without quotes.
"""
