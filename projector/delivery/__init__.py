"""From recorded decisions to the stream DECISIONS, in order, at least once."""
