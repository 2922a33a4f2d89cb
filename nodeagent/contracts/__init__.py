"""Contracts between the agent and its plugins: protocols and data classes without behavior."""
