"""HTTP/2 for clients that negotiate it (spec: opt.http2-max-streams-per-connection, opt.goaway-chance).

Custom on top of ``h2``, since aiohttp serves only HTTP/1.1. Imported with the first HTTP/2 connection.
"""
