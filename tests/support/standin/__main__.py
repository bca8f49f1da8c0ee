"""That as a process: ``python -m tests.support.standin``."""

import sys

from tests.support.standin.process import main

if __name__ == "__main__":
    sys.exit(main())
