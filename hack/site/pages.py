"""Pages of the site that are made from code: every command with its options, every public name with its docstring."""

from __future__ import annotations

import re

import typer
from typer.cli import get_docs_for_click

from tfoperator.cli.app import make_app

PUBLIC = {
    "tfoperator.sdk": "Create, watch and steer TFJobs from a program.",
    "tfoperator.notebook": "A function on several processes of this machine, from a notebook.",
    "tfoperator.progress": "Reports of training programs: how far they are.",
    "tfoperator.pipeline": "Pipelines of components, with a cache and lineage.",
    "tfoperator.launcher": "One component of a pipeline, on Docker, as a pod, as a TFJob, or in process.",
    "tfoperator.api": "What a TFJob is: types, defaults, validation.",
    "tfoperator.api.conversion": "TFJobs of older versions as v1.",
    "tfoperator.api.loading": "Files of manifests as objects with the lines of their fields.",
}
"""Modules that programs may import, and their purpose. Everything else is the project's own and may change any time."""


def cli_reference() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    command = typer.main.get_command(make_app())
    context = typer.Context(command, info_name="tfoperator")
    text = get_docs_for_click(obj=command, ctx=context, name="tfoperator", title="Commands")
    # Placeholders (NAME, <text>) are no HTML, and in prose they would be taken for it.
    return re.sub(r"^(?!```)([^`\n]*)<([a-z]+)>", r"\1&lt;\2&gt;", text, flags=re.MULTILINE)


def api_pages() -> dict[str, str]:
    """A page for each public package, by its place on the site; mkdocstrings fills them in."""
    listed = "".join(f"| [`{name}`]({name}.md) | {purpose} |\n" for name, purpose in PUBLIC.items())
    head = (
        "# Python\n\nThese packages are for programs. What others hold is internal.\n\n| package | for |\n|---|---|\n"
    )
    pages = {f"api/{name}.md": f"# {name}\n\n::: {name}\n" for name in PUBLIC}
    return {"api/index.md": head + listed, **pages}
