"""Removal of gatelog from a cluster without stopping running pods.

`released` frees pods and Workloads of users, `removing` does all steps in order.
"""
