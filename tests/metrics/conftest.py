"""Fixtures of other parts' tests that these tests use too."""

from tests.actuator.conftest import cluster_settings, lab
from tests.projector.conftest import own_bus

__all__ = ["cluster_settings", "lab", "own_bus"]
