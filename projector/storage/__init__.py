"""The database: connections, the state at a start, and a batch as a transaction."""
