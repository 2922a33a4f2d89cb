"""API objects as frozen structs in the shape of their JSON form, and functions on them. No I/O."""
