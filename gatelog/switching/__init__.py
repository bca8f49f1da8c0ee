"""Changing how gatelog works on a cluster that goes on working: `gatelog switch`.

`course` is what all switches have in common; `admission`, `certificates`, `queueing` and
`processes` are the four; `parts` looks at the deployments, `probe` tries a pod.
"""
