"""Safetensors checkpoints on disk: headers, layout across shards, file identity, fingerprints. Nothing here knows of daemons."""
