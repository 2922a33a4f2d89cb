"""Command line: one module per command. Only this package assigns exit codes."""
