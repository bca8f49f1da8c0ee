"""Every story of these tests ends in a world at rest, which makes no decisions."""

from tests.support.resting import comes_to_rest

__all__ = ["comes_to_rest"]
