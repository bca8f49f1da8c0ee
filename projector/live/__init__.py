"""The loop that follows the log: fold, decide, commit, announce; and a log that was replaced."""
