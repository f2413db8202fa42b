"""The engine's side: attach, map into torch, fall back. `load_file`, `safe_open`, `from_pretrained` are its surface."""
