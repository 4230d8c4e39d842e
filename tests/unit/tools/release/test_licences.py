"""Shipped packages have agreed licences, and the list of licences matches the metadata of packages."""

import re
from email.message import Message
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from tests.support.paths import ROOT
from tools.docs import licences as pages
from tools.release import installed, package_licences
from tools.release.commit import ReleaseError
from tools.release.installed import Pin
from tools.release.package_licences import PackageEntry, Role


def said(**fields: str) -> Message:
    message = Message()
    for name, value in fields.items():
        message[name.replace("_", "-")] = value
    return message


def test_nothing_is_shipped_under_a_licence_that_was_not_agreed() -> None:
    record = installed.record()
    assert sum(bool(package_licences.SHIPPED.intersection(one.roles)) for one in record.values()) > 30
    assert package_licences.objections(record) == []


def test_the_record_has_the_licences_of_installed_packages() -> None:
    record = installed.record()
    here = {key: one for key, one in installed.metadata(metadata.distributions()).items() if key in record}
    assert len(here) > 100
    assert {key: package_licences.licence(key.split()[0], one) for key, one in here.items()} == {
        key: record[key].licence for key in here
    }


def test_every_pin_is_in_the_record() -> None:
    assert installed.lacking(installed.pinned(), installed.record()) == []
    new = Pin(name="new", version="1.0", marker="", hashes=())
    assert installed.lacking([new], {"gone 1.0": PackageEntry(licence="MIT", roles=(Role.RUNNER,))}) == [
        "gone 1.0",
        "new 1.0",
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"License_Expression": "Apache-2.0 AND MIT"}, "Apache-2.0 AND MIT"),
        ({"License_Expression": "mit"}, "MIT"),
        ({"License": "BSD 3-Clause License\n\nCopyright"}, "BSD-3-Clause"),
        ({"License": "Apache 2.0", "Classifier": "License :: Other/Proprietary License"}, "Apache-2.0"),
        ({"License": "BSD", "Classifier": "License :: OSI Approved :: BSD License"}, package_licences.UNKNOWN),
        ({"License": "see the file", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT"),
        ({"License": "GPL-3.0-or-later"}, "GPL-3.0-or-later"),
        ({"Classifier": "License :: Other/Proprietary License"}, package_licences.UNKNOWN),
        ({}, package_licences.UNKNOWN),
    ],
)
def test_a_licence_has_its_spdx_name_or_is_unknown(fields: dict[str, str], expected: str) -> None:
    assert package_licences.licence("some", said(**fields)) == expected


@pytest.mark.parametrize(
    ("licence", "role", "foreign"),
    [
        ("GPL-3.0-only", Role.OPERATOR, "GPL-3.0-only"),
        ("MIT AND (LGPL-2.1-only OR Apache-2.0)", Role.COMMAND_LINE, "LGPL-2.1-only"),
        (package_licences.UNKNOWN, Role.RUNNER, package_licences.UNKNOWN),
        (package_licences.PROPRIETARY, Role.RUNNER, package_licences.PROPRIETARY),
        (package_licences.PROPRIETARY, Role.TORCH, ""),
        ("GPL-3.0-only", Role.DEVELOPMENT, ""),
        ("Apache-2.0 WITH LLVM-exception", Role.OPERATOR, ""),
    ],
)
def test_only_what_is_shipped_must_be_agreed(licence: str, role: Role, foreign: str) -> None:
    found = package_licences.objections({"some 1.0": PackageEntry(licence=licence, roles=(role,))})
    wanted = [f"some 1.0: {foreign} was not agreed for what is shipped ({role})"] if foreign else []
    assert found == wanted


def test_a_package_has_the_roles_of_those_that_need_it() -> None:
    requires = {
        "click": [Requirement("colorama; sys_platform == 'win32'")],
        "torch": [Requirement("jinja2"), Requirement("setuptools; python_version >= '3.12'")],
        "jinja2": [Requirement("markupsafe"), Requirement("babel; extra == 'i18n'"), Requirement("jinja2[loop]")],
        "uvicorn": [Requirement("websockets; extra == 'standard'")],
    }
    assert package_licences.role_names([Requirement("click")], requires) == {"click"}
    assert package_licences.role_names([Requirement("torch")], requires) == {
        "torch",
        "jinja2",
        "markupsafe",
        "setuptools",
    }
    assert package_licences.role_names([Requirement("uvicorn[standard]")], requires) == {"uvicorn", "websockets"}


def test_the_images_hold_what_the_roles_are_made_of() -> None:
    asked = package_licences.role_roots(installed.extras())
    text = (ROOT / "Dockerfile").read_text()
    runner = re.search(r"printf '(pytest\\n[^']*)'", text)
    assert runner
    assert set(runner[1].split("\\n")) - {""} == {one.name for one in asked[Role.RUNNER]}
    assert "--extra operator --extra cli pyproject.toml > operator.txt" in text


def test_records_for_other_machines_are_kept_and_missing_ones_are_an_error() -> None:
    pin = Pin(name="elsewhere", version="1.0", marker="", hashes=())
    known = {pin.key: PackageEntry(licence="MIT", roles=(Role.RUNNER,))}
    assert installed.renewed(known, [pin], {}) == {pin.key: PackageEntry(licence="MIT", roles=(Role.DEVELOPMENT,))}
    with pytest.raises(ReleaseError, match=r"licences of elsewhere 1\.0 are not recorded"):
        installed.renewed({}, [pin], {})


def test_copyleft_proprietary_and_unstated_licences_are_named_first() -> None:
    page = pages.page(
        {
            "some 1.0": PackageEntry(licence="MIT AND MPL-2.0", roles=(Role.OPERATOR,)),
            "cuda 1.0": PackageEntry(licence=package_licences.PROPRIETARY, roles=(Role.TORCH,)),
            "cuda 2.0": PackageEntry(licence=package_licences.PROPRIETARY, roles=(Role.TORCH,)),
            "mute 1.0": PackageEntry(licence=package_licences.UNKNOWN, roles=(Role.DEVELOPMENT,)),
            "fine 1.0": PackageEntry(licence="MIT", roles=(Role.OPERATOR, Role.RUNNER)),
        }
    )
    assert "- copyleft: some (MPL-2.0; operator image)\n" in page
    assert f"- proprietary: cuda ({package_licences.PROPRIETARY}; torch)\n" in page
    assert f"- none stated: mute ({package_licences.UNKNOWN}; development)\n" in page
    assert "- other: none\n" in page
    assert "- MIT (operator, runner): fine\n" in page
