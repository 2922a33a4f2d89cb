"""The commands: a module each, and the only place that knows exit codes."""
