"""What the projector tells of itself as metrics."""
