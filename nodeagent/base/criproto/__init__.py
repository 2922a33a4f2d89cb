"""Messages of the container runtime interface, v1, generated from ``api.proto`` by ``python tools/protogen.py``."""
