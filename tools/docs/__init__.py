"""Pages of docs/ that are generated from code and manifests: `python -m tools.docs` writes them, `--check` compares."""
