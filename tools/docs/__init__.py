"""Pages of docs/ that are made from what they describe: `python -m tools.docs` writes them, `--check` compares."""
