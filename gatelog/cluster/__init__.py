"""What is set up on a cluster and asked of it: manifests, CRDs, policies, requests."""
