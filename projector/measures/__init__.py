"""The projector's metrics."""
