"""Callers and their rights: both come from the API server."""
