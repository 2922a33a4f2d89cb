"""The container runtime and its image store over gRPC (CRI v1)."""
