"""Group versions that other servers serve: found by their API services, checked, listed, and passed on to."""
