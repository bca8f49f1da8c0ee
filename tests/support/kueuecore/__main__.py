"""The stand-in cluster as a process, with Kueue's core: ``python -m tests.support.kueuecore``."""

import sys

from tests.support.kueuecore import KueueCore
from tests.support.standin.process import main

if __name__ == "__main__":
    sys.exit(main(KueueCore))
