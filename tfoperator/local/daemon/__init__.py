"""`tfoperator local up`: a control plane in the background, and the files by which other commands find it.

`python -m tfoperator.local.daemon` is that process (`__main__`); commands import only the part with the files.
"""
