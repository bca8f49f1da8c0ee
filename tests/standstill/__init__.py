"""Nothing stands still in silence: a table of faults, and who must say so within a minute."""
