"""HTTP/2 for clients that negotiate it (spec: opt.http2-max-streams-per-connection, opt.goaway-chance).

A connection implements the protocol and passes every stream to the HTTP/1.1 handler as a separate connection, so that
all requests are processed in the same way. Imported with the first HTTP/2 connection.

Custom on top of ``h2``, since aiohttp serves only HTTP/1.1.
"""
