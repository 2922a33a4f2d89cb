"""Server wiring: components built from the options, start and stop."""
