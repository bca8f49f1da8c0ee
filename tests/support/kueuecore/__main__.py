"""The stand-in cluster as a process, with Kueue's core: ``python -m tests.support.kueuecore``."""

import sys

from simcluster.__main__ import main
from tests.support.kueuecore import KueueCore
from tests.support.standin import SimCluster

if __name__ == "__main__":
    sys.exit(main(SimCluster, KueueCore))
