"""`tfoperator local up`: a control plane in the background, and the files by which other commands find it.

`python -m tfoperator.local.daemon` is this background process (`__main__`). Commands import only the module with the
files.
"""
