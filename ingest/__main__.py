"""`python -m ingest`: the ingester as a process of its own; settings as everywhere.

Invariant: nothing but reading settings and starting `run_ingest` happens here.
"""

from ingest.bootstrap import run_ingest
from runtime.service import run_part


def main() -> None:
    """Run until a signal says stop."""
    run_part(run_ingest, name="ingest")


if __name__ == "__main__":
    main()
