"""Build the documentation as a site: `python -m hack.site`, which `make docs` calls.

`stage.py` copies the pages into one folder and turns links between files of the repository into links between pages
of the site; `pages.py` writes the pages that are made from code. MkDocs then builds the site by `mkdocs.yml`.
"""
