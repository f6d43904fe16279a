"""The background process of `tfoperator local up`, which runs `tfoperator.local.daemon` and serves the page."""

from __future__ import annotations

import sys

from tfoperator.cli.page import make_page
from tfoperator.local.daemon.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], make_page))
