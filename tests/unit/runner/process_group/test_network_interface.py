"""Over which interface gloo meets where the host's name does not say it."""

import socket

import pytest

from disttest_runner.process_group import rendezvous

LOOPBACK = frozenset({"127.0.0.1", "::1"})
INTERFACES = {"lo": LOOPBACK, "docker0": frozenset({"172.17.0.1"}), "eth0": frozenset({"10.0.0.7", "fd00::7"})}


@pytest.mark.parametrize(
    ("own", "of_name", "expected"),
    [
        ("10.0.0.7", frozenset({"10.0.0.7"}), ""),
        ("10.0.0.7", frozenset({"127.0.1.1"}), "eth0"),
        ("10.0.0.7", frozenset(), "eth0"),
        ("fd00::7", LOOPBACK, "eth0"),
        ("10.0.0.9", LOOPBACK, ""),
        ("127.0.0.1", frozenset(), ""),
    ],
    ids=["a pod", "a node", "a node without a name", "IPv6", "no interface has it", "on one machine"],
)
def test_the_interface_is_named_where_the_hosts_name_leads_elsewhere(
    own: str, of_name: frozenset[str], expected: str
) -> None:
    assert rendezvous.chosen_interface(own, of_name, INTERFACES) == expected


def test_what_the_user_set_stays() -> None:
    assert rendezvous.interface_settings("192.0.2.1", 29400, {rendezvous.VARIABLE: "eth1"}) == {}


def test_on_loopback_nothing_is_set() -> None:
    assert rendezvous.interface_settings("127.0.0.1", 29400, {}) == {}


def test_a_store_whose_name_leads_nowhere_changes_nothing() -> None:
    assert rendezvous.interface_settings("no-such-host.invalid", 29400, {}) == {}


def test_this_machines_interfaces_are_read() -> None:
    found = rendezvous.of_interfaces()
    assert list(found) == [name for _, name in socket.if_nameindex()]
    assert rendezvous.address_towards("127.0.0.1", 9) in found["lo"]
