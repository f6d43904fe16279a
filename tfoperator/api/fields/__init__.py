"""What a field of a TFJob is: its declaration, the forms and bounds of values, and problems with their paths.

This room knows no field. `structure` compares plain JSON with types.
"""
