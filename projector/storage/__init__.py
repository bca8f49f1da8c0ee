"""The database: connections, what a projector starts from, and one batch as one transaction."""
