"""`python -m projector`: the projector as a process of its own; settings as everywhere.

Invariant: nothing but reading settings and starting `run_projector` happens here.
"""

from projector.bootstrap import run_projector
from runtime.service import run_part


def main() -> None:
    """Run until a signal says stop."""
    run_part(run_projector, name="projector")


if __name__ == "__main__":
    main()
