"""flexVolume: volumes of third-party drivers, which are programs in a directory (spec: config.volumePluginDir)."""
