"""Mounts of volumes: system calls, the mount table, checks of mount points, and group ownership. Blocking."""
