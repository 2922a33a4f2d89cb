"""HTTP/1.1 and HTTP/1.0: parsed by the public server classes of ``aiohttp``; responses are written here."""
