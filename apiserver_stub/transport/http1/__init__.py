"""HTTP/1.1 and HTTP/1.0: parsed by ``httptools``; connections, and responses, are implemented here."""
