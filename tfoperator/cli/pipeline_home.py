"""Where pipelines keep their records unless somebody says otherwise; known without loading anything of pipelines."""

from __future__ import annotations

from pathlib import Path

DEFAULT_HOME = Path(".tfoperator", "pipelines")
