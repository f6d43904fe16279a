"""Tools for the fields of a TFJob: declarations, forms and limits of values, and problems with field paths.

This package declares no field of a TFJob itself. `structure` compares plain JSON with types.
"""
