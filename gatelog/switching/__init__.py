"""Changing who admits on a cluster that goes on working: `gatelog switch`.

`queueing` is the switch; `parts` looks at the deployments.
"""
