"""Pages of docs/ that are made from what they describe: `python -m documents` writes them, `--check` compares."""
