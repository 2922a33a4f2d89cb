"""A container runtime of our own, speaking CRI v1, for machines that have none; its daemon runs without the agent."""
