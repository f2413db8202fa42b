"""Shareable memory that both sides touch: sealed memfds, and GPU memory behind descriptors."""
