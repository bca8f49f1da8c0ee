"""Would it start: pods that are tried, against what happens to them when they are made."""
