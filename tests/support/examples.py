"""How many examples a dear test with Hypothesis plays: some in `make test`, all in `make test-all`.

Invariant: in either the same ones in every run, see `tests/conftest.py`.
"""

from hypothesis import settings

BRIEF = "brief"
"""The profile of `make test`."""


def examples(most: int, *, brief: int) -> settings:
    """Return settings with `most` examples, or `brief` where the profile is that of `make test`."""
    chosen = brief if settings.get_current_profile_name() == BRIEF else most
    return settings(max_examples=chosen)
