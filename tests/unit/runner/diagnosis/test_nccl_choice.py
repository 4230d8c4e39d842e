"""Which network NCCL chose, from excerpts of its log in the form of each version. They are synthetic."""

import importlib.util
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from disttest_contract.results.network_transport import NetworkTransport as Used
from disttest_contract.results.network_transport import TransportFacts
from disttest_runner.diagnosis import nccl_choice
from disttest_runner.process_group import torch_settings

EXCERPTS = Path(__file__).parents[3] / "data" / "nccl_logs"
ALL = ("NET", "NVLS", "P2P")
TORCH = importlib.util.find_spec("torch")
LIBRARY = Path(TORCH.origin if TORCH and TORCH.origin else "/no/torch").parents[1] / "nvidia/nccl/lib/libnccl.so.2"

EXPECTED = {
    "2.17-socket": TransportFacts(transport=Used.TCP, network="Socket", connections=("NET",)),
    "2.18-ib-gdr": TransportFacts(transport=Used.RDMA, network="IB", connections=ALL, gpu_direct_rdma=True),
    "2.19-ib-without-gdr": TransportFacts(transport=Used.RDMA, network="IB", connections=("NET",)),
    "2.21-one-node": TransportFacts(transport=Used.LOCAL, connections=("P2P", "SHM")),
    "2.22-efa": TransportFacts(
        transport=Used.PLUGIN,
        network="AWS Libfabric",
        plugin="aws-ofi-nccl 1.12.1-aws, efa",
        connections=("NET",),
        gpu_direct_rdma=True,
    ),
    "2.23-fastrak": TransportFacts(
        transport=Used.PLUGIN,
        network="FasTrak",
        plugin="FasTrak 1.0.17",
        connections=("NET",),
        gpu_direct_rdma=True,
    ),
    "2.26-hpcx": TransportFacts(transport=Used.RDMA, network="IBext_v9", connections=("NET",), gpu_direct_rdma=True),
    "2.27-connected-later": TransportFacts(transport=Used.RDMA, network="IB"),
    # The provider decides: the name of the network is the same.
    "2.28-libfabric-over-tcp": TransportFacts(
        transport=Used.TCP, network="Libfabric", plugin="aws-ofi-nccl 1.18.0, tcp", connections=("NET",)
    ),
    "2.29-gib": TransportFacts(transport=Used.RDMA, network="gIB", connections=("NET",), gpu_direct_rdma=True),
    "2.29-mixed-gdr": TransportFacts(transport=Used.RDMA, network="IB", connections=ALL),
    "2.30-fallback-in-a-suite": TransportFacts(transport=Used.TCP, network="Socket", connections=("NET",)),
    "2.30-mnnvl": TransportFacts(transport=Used.LOCAL, connections=("NVLS", "P2P")),
    "2.30-warnings-only": TransportFacts(),
}


def excerpt(name: str) -> str:
    return (EXCERPTS / f"{name}.log").read_text()


def test_each_excerpt_has_its_row() -> None:
    assert {path.stem for path in EXCERPTS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_excerpt(name: str) -> None:
    assert nccl_choice.facts(nccl_choice.read(excerpt(name)), nodes=2) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log_that_is_read_line_by_line_gives_the_same(name: str) -> None:
    choice = nccl_choice.NOTHING
    for line in excerpt(name).splitlines(keepends=True):
        choice = choice.merge(nccl_choice.read(line))
    assert nccl_choice.facts(choice, nodes=2) == EXPECTED[name]


def test_on_one_node_a_chosen_network_is_not_used() -> None:
    facts = nccl_choice.facts(nccl_choice.read(excerpt("2.27-connected-later")), nodes=1)
    assert facts.transport is Used.LOCAL


def test_the_time_grows_with_the_length_only() -> None:
    line = "node-0:41:98 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    hostile = "NCCL INFO Using network " + "a " * 100_000 + "\n" + " via NET/" * 20_000
    assert nccl_choice.read(line * 20_000 + hostile).inner == {"P2P"}


FORMATS = (
    b"Using network %s",
    b"[send] via NET/%s/%d",
    b"[receive] via NET/%s/%d",
    b"via P2P/",
    b"via SHM/%s/%s",
    b" coll channels, %d collnet channels, %d nvls channels",
    b"/GDRDMA",
)


@pytest.mark.skipif(not LIBRARY.exists(), reason="torch of this environment brings no NCCL")
def test_the_installed_nccl_has_the_texts_that_the_patterns_expect() -> None:
    with LIBRARY.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
        assert [text for text in FORMATS if library.find(text) < 0] == []


@pytest.mark.skipif(not LIBRARY.exists(), reason="torch of this environment brings no NCCL")
def test_the_installed_nccl_writes_to_the_file_of_its_process(tmp_path: Path) -> None:
    """Without a GPU it only gets as far as an id for a communicator."""
    folder = tmp_path / "100%"
    folder.mkdir()
    pattern = f"{folder}".replace("%", "%%") + "/3.%p.log"
    settings = torch_settings.wanted(5, records_gloo=True, nccl_log=pattern)
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).ncclGetUniqueId(ctypes.create_string_buffer(128))"
    command = [sys.executable, "-c", code, str(LIBRARY)]
    process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.PIPE)
    output, _ = process.communicate(timeout=60)
    assert output == b""
    assert "NCCL INFO" in (folder / f"3.{process.pid}.log").read_text()
