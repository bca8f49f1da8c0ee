"""The aggregated API: Kubernetes objects and tables made from the read model.

handling     a request from its path to its answer
groups       which groups, versions and kinds there are
kinds        our kinds as data: names, columns, how they are found
objects      what the objects look like; OpenAPI is drawn from these types
visibility   pendingworkloads, as Kueue serves them
params, selectors, status, table, discovery, openapi, feed     the parts
"""
