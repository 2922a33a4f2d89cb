"""The messages of the container runtime interface, v1; ``python tools/protogen.py`` makes them from ``api.proto``."""
