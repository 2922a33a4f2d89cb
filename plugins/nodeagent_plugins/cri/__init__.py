"""The container runtime and its image store over gRPC (CRI v1)."""

import os

# Children only ever run other programs, and gRPC's care for others fills the log; it reads this when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
