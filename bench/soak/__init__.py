"""The soak: half an hour of mixed load, and what must not have grown at its end."""
