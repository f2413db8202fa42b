"""The processes that keep weights resident: server and workers. Never imports torch."""
