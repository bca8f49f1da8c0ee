"""What is known of groups, queues and the log's position, and how rules see it."""
