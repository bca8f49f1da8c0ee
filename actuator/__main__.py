"""`python -m actuator`: the actuator as a process of its own; settings as everywhere.

Invariant: nothing but reading settings and starting `run_actuator` happens here.
"""

from actuator.bootstrap import run_actuator
from runtime.service import run_part


def main() -> None:
    """Run until a signal says stop."""
    run_part(run_actuator, name="actuator")


if __name__ == "__main__":
    main()
