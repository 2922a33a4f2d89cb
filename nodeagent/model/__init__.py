"""What the agent reads and decides on: frozen structs without I/O, in the wire's own shape."""
