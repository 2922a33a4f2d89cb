"""Messages of the container runtime interface, v1, generated from ``api.proto`` by ``python tools/protogen.py``."""

from nodeagent.base.protobuf_runtime import defer_python_implementation

defer_python_implementation()
