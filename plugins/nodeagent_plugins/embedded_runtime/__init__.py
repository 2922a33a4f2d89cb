"""Embedded CRI v1 runtime for hosts without a container runtime; its daemon is independent of the agent."""
