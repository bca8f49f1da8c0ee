"""The schema brought up to date, the role of readers, and what is old taken away."""
