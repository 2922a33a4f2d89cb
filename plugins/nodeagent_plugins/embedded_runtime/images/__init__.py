"""Images: names, archives, registries, layers and the image store."""
