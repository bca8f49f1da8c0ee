"""Taking gatelog off a cluster without stopping what runs there.

`ownership` says which objects are gatelog's, `pods` and `workloads` what is taken off those of
users, `removing` does all of it in order.
"""
