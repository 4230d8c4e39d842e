"""The bill of materials of a release: what its images and its command line install. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release import licences
from release.licences import Entry, Record, Role
from release.pins import Pin


def document(version: str, commit: str, time: int, pins: Sequence[Pin], record: Record) -> str:
    """CycloneDX. The same commit gives the same text: number and time are of the commit."""
    root = Component(
        type=ComponentType.APPLICATION,
        name="disttest",
        version=version,
        purl=PackageURL("pypi", None, "disttest", version),
        bom_ref=f"disttest@{version}",
        licenses=[LicenseExpression("Apache-2.0")],
        properties=[Property(name="disttest:commit", value=commit)],
    )
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"disttest/{version}/{commit}"))
    bom.metadata.timestamp = datetime.fromtimestamp(time, tz=UTC)
    bom.metadata.component = root
    parts = [_component(pin, record[pin.key]) for pin in pins if record[pin.key].roles != (Role.DEVELOPMENT,)]
    bom.components.update(parts)
    bom.register_dependency(root, parts)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _component(pin: Pin, entry: Entry) -> Component:
    known = entry.licence != licences.UNKNOWN
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=PackageURL("pypi", None, pin.name, pin.version),
        bom_ref=f"{pin.name}@{pin.version}",
        licenses=[LicenseExpression(entry.licence)] if known else [],
        properties=[Property(name="disttest:role", value=role) for role in entry.roles],
    )
