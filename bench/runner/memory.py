"""Memory of a node's processes before CUDA: zygote, ranks, agent."""

import json
import tempfile
from pathlib import Path

from bench.figure import Figure, at_most
from bench.runner import gangs

RANKS = 8
FILE = "BENCH_MEMORY"
# Barriers make all ranks exist while each one reads.
SOURCE = """
import json
import os
import time
from pathlib import Path

def smaps(pid):
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {row[0].rstrip(":"): int(row[1]) for row in rows}

def agent_rss(zygote):
    agent = int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])
    rows = (line.split() for line in Path(f"/proc/{agent}/status").read_text().splitlines())
    return {row[0]: row[1] for row in rows if len(row) > 1}["VmRSS:"]

def test_memory(gang, process_group):
    process_group.barrier().wait()
    zygote = os.getppid()
    found = {"rank": smaps(os.getpid()), "zygote": smaps(zygote), "agent_rss_kib": int(agent_rss(zygote))}
    Path(os.environ["BENCH_MEMORY"], f"{gang.rank}.json").write_text(json.dumps(found))
    process_group.barrier().wait()
"""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as folder, gangs.suite_of(SOURCE) as suite:
        gangs.expect(gangs.run(suite, nodes=1, ranks=RANKS, environ={FILE: folder}), passed=1)
        found = [json.loads(file.read_text()) for file in Path(folder).iterdir()]
    if len(found) != RANKS:
        raise SystemExit(f"bench: {len(found)} of {RANKS} ranks said what they hold")
    ranks = [one["rank"] for one in found]
    zygote_pss = max(one["zygote"]["Pss"] for one in found)
    pss_gib = (zygote_pss + sum(rank["Pss"] for rank in ranks)) / 2**20
    private_mib = max(rank["Private_Dirty"] + rank["Private_Clean"] for rank in ranks) / 2**10
    agent_mb = found[0]["agent_rss_kib"] * 1024 / 1e6
    return [
        at_most("zygote_and_8_ranks_pss", pss_gib, "GiB", 0.9, digits=3),
        at_most("private_memory_of_a_rank", private_mib, "MiB", 30, digits=1),
        at_most("agent_rss", agent_mb, "MB", 40, digits=1),
    ]
