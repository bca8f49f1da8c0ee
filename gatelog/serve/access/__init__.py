"""Who asks, and whether they may: the API server's answers to both."""
