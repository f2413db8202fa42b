"""Shareable memory that both sides touch: sealed memfds."""
