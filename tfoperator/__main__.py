"""`python -m tfoperator` is the command `tfoperator`, for an interpreter whose programs are not on the path."""

from __future__ import annotations

import sys

from tfoperator.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
