"""One module a schema version; never edited after a release."""
