"""How to scrape: a ServiceMonitor, and the same for a Prometheus without its operator.

Both drop the target's labels from metrics of runs, so that a series continues when another pod becomes active.
"""

import textwrap
from pathlib import Path

from disttest_operator.metrics.families import FAMILIES, LEDGER_PENDING, Family, FamilyType, Group

# Metrics of the active operator only; the other groups are exposed by each replica.
STATE_GROUPS = (Group.RUNS, Group.LAST, Group.ACTIVE, Group.FABRIC, Group.NODES, Group.SCHEDULE)
# Labels that name the scraped pod.
TARGET_LABELS = ("pod", "instance", "container", "endpoint")
TARGET_LABELS_PLAIN = ("pod", "instance")  # the others are the Prometheus operator's

SERVICE_MONITOR = """\
# Made by `python -m tools.dashboards` from the table of metric families: change tools/dashboards/prometheus_objects.py.
# Without honorLabels `namespace` would be the operator's, not that of the runs.
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: disttest-operator
  namespace: disttest-system
  labels: {app.kubernetes.io/name: disttest-operator, app.kubernetes.io/part-of: disttest}
spec:
  selector:
    matchLabels: {app.kubernetes.io/name: disttest-operator}
  endpoints:
    - port: metrics
      scheme: https
      honorLabels: true
      interval: 30s
      # The token of Prometheus's own ServiceAccount, which needs the right to get /metrics (docs/monitoring.md). Where
      # a Prometheus may not read its files for ServiceMonitors write instead:
      #   authorization: {credentials: {name: SECRET OF TYPE service-account-token, key: token}}
      bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
      # The operator's own certificate is signed by nobody. With one from a Secret write instead:
      #   tlsConfig:
      #     serverName: disttest-operator.disttest-system.svc
      #     ca: {secret: {name: disttest-metrics-tls, key: ca.crt}}
      tlsConfig: {insecureSkipVerify: true}
      # A label that is set to nothing is gone. The pattern has no group, so that `$1`, which is put in unless told
      # otherwise, is nothing: `replacement: ""` is lost on the way in older versions of the Prometheus operator.
      metricRelabelings:
"""

SCRAPE_CONFIG = """\
# Made by `python -m tools.dashboards` from the table of metric families: change tools/dashboards/prometheus_objects.py.
# For a Prometheus in the cluster without the Prometheus operator. Its ServiceAccount needs the right to get /metrics,
# and to list and watch Pods in disttest-system.
rule_files:
  - rules/*.yaml
scrape_configs:
  - job_name: disttest-operator
    scheme: https
    scrape_interval: 30s
    honor_labels: true # else `namespace` would be the operator's, not that of the runs
    authorization: {credentials_file: /var/run/secrets/kubernetes.io/serviceaccount/token}
    tls_config: {insecure_skip_verify: true} # or ca_file and server_name, with a certificate of yours
    kubernetes_sd_configs:
      - role: pod # not the Service: each replica has numbers of its own
        namespaces: {names: [disttest-system]}
    relabel_configs:
      - {action: keep, source_labels: [__meta_kubernetes_pod_label_app_kubernetes_io_name], regex: disttest-operator}
      - {action: keep, source_labels: [__meta_kubernetes_pod_container_port_name], regex: metrics}
      - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
      - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
    metric_relabel_configs:
"""


def state_families() -> list[Family]:
    return [family for family in FAMILIES if family.group in STATE_GROUPS or family is LEDGER_PENDING]


def state_pattern() -> str:
    """A pattern of scraped names; a histogram has three. No capturing group: the ServiceMonitor's comment says why."""
    return "|".join(
        family.full_name + "_(?:bucket|count|sum)" if family.type is FamilyType.HISTOGRAM else family.shown_name
        for family in state_families()
    )


def relabelings(labels: tuple[str, ...], *, source: str, target: str, indent: int) -> str:
    """One entry for each label under the keys `source` and `target`; a YAML anchor shares the pattern."""
    first, *others = labels
    pattern = state_pattern().replace("|disttest", "|\\\n    disttest")
    lines = [
        f"- {source}: [__name__]",
        f"  {target}: {first}",
        f'  regex: &state "\\\n    {pattern}"',
        *(f"- {{{source}: [__name__], {target}: {label}, regex: *state}}" for label in others),
    ]
    return textwrap.indent("\n".join(lines) + "\n", " " * indent)


def write_service_monitor(folder: Path) -> None:
    entries = relabelings(TARGET_LABELS, source="sourceLabels", target="targetLabel", indent=8)
    (folder / "service-monitor.yaml").write_text(SERVICE_MONITOR + entries)


def write_scrape_config(folder: Path) -> None:
    entries = relabelings(TARGET_LABELS_PLAIN, source="source_labels", target="target_label", indent=6)
    (folder / "prometheus.yaml").write_text(SCRAPE_CONFIG + entries)


RULES = Path(__file__).resolve().parents[2] / "manifests" / "monitoring" / "rules"

HEADER = """\
# Made by `python -m tools.dashboards` from manifests/monitoring/rules/{file}: change it there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: disttest-{name}
  namespace: disttest-system
  labels: {{app.kubernetes.io/name: disttest-operator, app.kubernetes.io/part-of: disttest}}
spec:
"""


def plain_files() -> list[Path]:
    """The rule files that developers write and Prometheus reads."""
    return sorted(path for path in RULES.glob("*.yaml") if path.name != "kustomization.yaml")


def prometheus_rule(file: str, text: str) -> str:
    """The PrometheusRule of a plain rule file's text; indenting keeps its comments."""
    return HEADER.format(file=file, name=Path(file).stem) + textwrap.indent(text, "  ")


def write(folder: Path) -> None:
    for plain in plain_files():
        (folder / plain.name).write_text(prometheus_rule(plain.name, plain.read_text()))
