"""The messages of konnectivity; ``python tools/protogen.py`` makes them from the ``.proto`` file."""
