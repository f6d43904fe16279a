"""The parts of a field of a TFJob: its declaration, the forms and bounds of values, and problems with their paths.

This package has no field itself. `structure` compares plain JSON with types.
"""
