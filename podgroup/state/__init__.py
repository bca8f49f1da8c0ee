"""The state of groups, queues and the log's position."""
