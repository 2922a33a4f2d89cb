"""How fast and how small the programs are on this machine: ``python -m benchmarks --help``.

A benchmark is a module with ``FIGURES``, what it measures, and ``run() -> dict[str, float]``, one measurement of each.
They start programs of their own (containerd, API server, agent) and need root, as the integration tests do.
"""
