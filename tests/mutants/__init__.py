"""Mutation testing: change conditions of the code, and verify that tests detect each change."""
