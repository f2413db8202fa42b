"""The command line: parse, call, print. Logic lives in the rooms below; every command answers a person and, with `--json`, a program."""
