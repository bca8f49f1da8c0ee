"""Playing cases that say what Kueue's scheduler made of a snapshot, step by step."""
