"""Test suites of clients, run against the bundled API server and kube-apiserver: see :mod:`__main__`."""
