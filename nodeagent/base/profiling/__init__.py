"""Profiles of the running process for ``/debug/pprof``: CPU time, memory, tasks, threads, event loop delays.

Both binaries serve them; this package has no HTTP, only names, parameters and content.
"""
