"""PrometheusRule objects from the plain rule files, word by word: one source, comments included."""

import textwrap
from pathlib import Path

RULES = Path(__file__).resolve().parent.parent / "manifests" / "monitoring" / "rules"

HEADER = """\
# Made by `python -m monitoring` from manifests/monitoring/rules/{file}: change it there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: disttest-{name}
  namespace: disttest-system
  labels: {{app.kubernetes.io/name: disttest-operator, app.kubernetes.io/part-of: disttest}}
spec:
"""


def plain_files() -> list[Path]:
    """What people write; Prometheus reads the same files."""
    return sorted(path for path in RULES.glob("*.yaml") if path.name != "kustomization.yaml")


def prometheus_rule(file: str, text: str) -> str:
    """`text` is the plain file. Indenting leaves YAML what it is, and its comments where they are."""
    return HEADER.format(file=file, name=Path(file).stem) + textwrap.indent(text, "  ")


def write(folder: Path) -> None:
    for plain in plain_files():
        (folder / plain.name).write_text(prometheus_rule(plain.name, plain.read_text()))
