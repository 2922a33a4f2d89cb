"""The messages of version 2 of the published document; ``python tools/protogen.py`` makes them."""
