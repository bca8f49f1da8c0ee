"""Topology-aware placing: which domain each pod gets, decided on a tree of nodes kept up to date.

`domains` has the tree, `request` reads requests, `counts` knows how much fits where,
`choosing` and `dividing` go from the requested level down to leaves (`leading` with a leader),
`placement` places podsets, `replacing` pods of a failed node, `ungating` pairs pods with places.
Rules are those of Kueue.
"""
