"""That as a process: ``python -m tests.support.standin``."""

import sys

from simcluster.__main__ import main
from tests.support.standin import SimCluster

if __name__ == "__main__":
    sys.exit(main(SimCluster))
