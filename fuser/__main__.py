"""`python -m fuser`: see `python -m fuser --help`."""

from __future__ import annotations

import sys

from fuser.explanation.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
