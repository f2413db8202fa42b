"""A directory for PYTHONPATH, not for imports: Python finds `sitecustomize` here before any program's own code runs."""
