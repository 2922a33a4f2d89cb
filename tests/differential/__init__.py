"""Differential tests: requests recorded with the answers of kube-apiserver 1.29, and replayed."""
