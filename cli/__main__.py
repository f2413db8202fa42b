"""`python -m wcache.cli` is the command `wcache`."""

from wcache.cli.main import main

main()
