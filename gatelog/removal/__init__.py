"""Taking gatelog off a cluster without stopping what runs there.

`released` says what is taken off pods and Workloads of users, `removing` does all of it in order.
"""
