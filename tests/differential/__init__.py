"""Differential tests: requests recorded with the responses of kube-apiserver 1.29, and replayed."""
