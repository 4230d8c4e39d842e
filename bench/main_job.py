"""Latency of the sample DistTest: apply to first case, last case to verdict; requests of an idle operator."""

import base64
import gzip
import json
import re
import statistics
import subprocess
import sys
import time
from typing import Any

import yaml

from bench.figure import Figure, at_most
from devcluster.controlplane.lifecycle import DevCluster
from devcluster.machine import cache
from disttest_contract.results.report import Report
from tools.demo import demo
from tools.demo.demo import SAMPLE, Demo
from tools.demo.session import say

RUNS = 5
IDLE_SECONDS = 30
RUN_SECONDS = 180
SUITES = ("collectives", "fully-shard-autograd")  # short ones: the time of the cases is not measured
REQUEST = re.compile(r"^disttest_api_requests_total\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)


def measure() -> list[Figure]:
    """Return medians of a few runs, each next to one plain `import torch`."""
    with demo.started(DevCluster(cache.cluster("bench")), "bench") as session:
        session.install()
        pairs = [(import_seconds(), one_run(session, number)) for number in range(RUNS)]
        requests_when_idle = idle_requests(session)
    starts = [start - plain for plain, (start, _) in pairs]
    ends = [end for _, (_, end) in pairs]
    imports, firsts = [round(plain, 2) for plain, _ in pairs], [round(start, 2) for _, (start, _) in pairs]
    say(f"import torch {imports} s, apply to first case {firsts} s, last case to verdict {ends} s")
    return [
        at_most("apply_to_first_case_above_import_torch", statistics.median(starts), "s", 2),
        at_most("last_case_to_verdict", statistics.median(ends), "s", 1),
        at_most("idle_operator_requests_besides_watches_and_lease", requests_when_idle, "requests", 0),
    ]


def import_seconds() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.monotonic() - started


def one_run(session: Demo, number: int) -> tuple[float, float]:
    """Return seconds from apply to the first case, and from the end of the last case to the verdict in status."""
    test = yaml.safe_load(SAMPLE.read_text())
    test["metadata"]["name"] = name = f"bench-{number}"
    test["spec"]["suites"] = [suite for suite in test["spec"]["suites"] if suite["name"] in SUITES]
    file = session.results / "bench.yaml"
    file.write_text(yaml.safe_dump(test))
    applied = time.time()
    session.kubectl("apply", "-f", str(file))
    watch = [*session.program, "get", "disttest", name, "-o", "json", "--watch", f"--request-timeout={RUN_SECONDS}s"]
    with subprocess.Popen(watch, env=session.environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            status = until_verdict(process)
        finally:
            process.kill()
    seen = time.time()
    if status["verdict"] != "Passed":
        raise SystemExit(f"bench: {name} ended as {status['verdict']}: {status['message']}")
    config_map = json.loads(session.kubectl("get", "configmap", status["report"]["configMap"], "-o", "json"))
    report = Report.loads(gzip.decompress(base64.b64decode(config_map["binaryData"]["report.json.gz"])))
    if report.first_case is None or report.last_case is None:
        raise SystemExit(f"bench: the report of {name} has no times")
    return report.first_case - applied, seen - report.last_case


def until_verdict(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Read the watch's stream of JSON objects until one has a verdict; kubectl ends it at its timeout."""
    text, decoder = "", json.JSONDecoder()
    for line in process.stdout or ():
        text += line
        if line.startswith("}"):
            status: dict[str, Any] = decoder.decode(text).get("status", {})
            text = ""
            if status.get("verdict"):
                return status
    raise SystemExit(f"bench: no verdict within {RUN_SECONDS} s")


def idle_requests(session: Demo) -> int:
    """Count requests of the operator while nothing changes, without watches and its Lease."""
    before = requests(session)
    time.sleep(IDLE_SECONDS)
    after = requests(session)
    other = {key: n - before.get(key, 0) for key, n in after.items() if n != before.get(key, 0)}
    say(f"requests of the idle operator in {IDLE_SECONDS} s: {other}")
    return int(sum(n for key, n in other.items() if 'verb="watch"' not in key and 'resource="leases"' not in key))


def requests(session: Demo) -> dict[str, float]:
    return {found[1]: float(found[2]) for found in REQUEST.finditer(session.scrape())}
