"""`python -m hack.enumeration`."""

import sys

from hack.enumeration.cli import main

if __name__ == "__main__":
    sys.exit(main())
