"""Out-of-process plugin for tests, which misbehaves on request."""
