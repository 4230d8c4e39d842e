"""Case ids as other tools have them: a file, classes and a name."""

from dataclasses import dataclass

from disttest_cli.formats import plain
from disttest_contract import limits

NAME_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseName:
    """`file` is empty where the id names none."""

    file: str
    classes: tuple[str, ...]
    name: str


def split(case_id: str) -> CaseName:
    """`a/b.py::TestC::test_d[e::f]` is name `test_d[e::f]` of the class TestC in a/b.py."""
    head, bracket, parameters = plain.one_line(case_id, NAME_BYTES).partition("[")
    *path, name = head.split("::")
    name = f"{name}{bracket}{parameters}" or "(without a name)"
    if path and path[0].endswith(".py"):
        return CaseName(file=path[0], classes=tuple(path[1:]), name=name)
    return CaseName(file="", classes=tuple(path), name=name)


def class_name(suite: str, case: CaseName) -> str:
    """Dotted, as pytest has it, below the suite: no two suites share one."""
    module = case.file.removesuffix(".py").replace("/", ".").strip(".")
    return ".".join(part for part in (suite_name(suite), module, *case.classes) if part)


def suite_name(suite: str) -> str:
    return limits.cut(plain.one_line(suite, NAME_BYTES), NAME_BYTES) or "(without a name)"
