"""Build the documentation as a site: `python -m hack.site`, which `make docs` calls.

`stage.py` copies the pages into one folder and turns links between files of the repository into links between pages
of the site; `pages.py` writes those that are made from code. MkDocs then builds what `mkdocs.yml` says.
"""
