"""API aggregation: availability, discovery and proxying of group versions that extension API servers serve."""
