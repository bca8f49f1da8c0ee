"""Fixtures of the forecasts' tests: a migrated database of either kind."""

from tests.readmodel.conftest import url

__all__ = ["url"]
