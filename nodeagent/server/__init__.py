"""HTTP servers of the agent: secure port, read-only port, health port and local socket."""
