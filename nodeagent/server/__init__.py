"""What the agent serves."""
