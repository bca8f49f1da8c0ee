"""What is known of groups, queues and the log's position."""
