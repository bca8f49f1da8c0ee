"""rich's console for text that others wrote.

Invariant: control sequences on it are those of rich itself.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gatelog.shell.visible import visible


class Screen(Console):
    """rich's console for text of others: what it is given to show is made visible first."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, but for control characters in texts."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)
