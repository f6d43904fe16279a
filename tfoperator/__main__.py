"""`python -m tfoperator` runs the command `tfoperator`, also where the PATH does not include the command."""

from __future__ import annotations

import sys

from tfoperator.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
