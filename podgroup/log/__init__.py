"""What goes through the log: events, conclusions, bytes, subjects. Imports the model only."""
