"""Benchmarks of the agent and the API server on this host: ``python -m benchmarks --help``.

A benchmark is a module with ``FIGURES`` and ``run() -> dict[str, float]``, which measures each figure once. Benchmarks
start dedicated processes (containerd, API server, agent) and require root, like integration tests.
"""
