"""Frames, messages, descriptor passing and peer identity on the Unix socket."""
