"""What plugins provide and what the agent hands to them: protocols and plain data, no behaviour."""
