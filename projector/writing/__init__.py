"""From what a batch changed to rows and statements of either database."""
