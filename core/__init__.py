"""What every process of wcache shares: the model, checkpoints on disk, the wire, and shareable memory."""

__version__ = "0.1.0.dev0"
