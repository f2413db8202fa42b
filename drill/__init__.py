"""The acceptance run of a cache: what a server does with, without and against it, measured and judged. It starts commands only."""
