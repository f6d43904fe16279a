"""`tfoperator local up`: a control plane in the background, and the files by which other commands find it.

`python -m tfoperator.local.daemon` is this background process (`__main__`). The commands import only the module
`state_directory`, which reads and writes these files.
"""
