"""Images: names, archives, registries, layers and the store that keeps them."""
