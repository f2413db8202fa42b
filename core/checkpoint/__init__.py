"""Checkpoints on disk: safetensors headers, index and cross-shard rules, Hugging Face snapshots, file identity, fingerprints."""
