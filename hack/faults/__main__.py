"""`python -m hack.faults`."""

import sys

from hack.faults.cli import main

if __name__ == "__main__":
    sys.exit(main())
