"""rich's console for text of users and other programs.

Invariant: only rich itself writes control sequences.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from gatelog.shell.visible import visible


class Screen(Console):
    """rich's console for foreign text: control characters in it are made visible first."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, but for control characters in texts."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)
