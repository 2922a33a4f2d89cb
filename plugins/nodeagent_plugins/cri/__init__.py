"""CRI v1 client: container runtime and image service over gRPC."""

import os

# Child processes only ever exec, and gRPC's fork handlers fill the log; gRPC reads the variable when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
