"""FlexVolume: volumes of third-party drivers, which are executables in a directory (spec: config.volumePluginDir)."""
