"""The line that tells why cases could not be collected, and what ids are relative to."""

from pathlib import Path

import pytest

from disttest_runner.cases.collection import cause, prefix

IMPORT = """ImportError while importing test module '/x/test_it.py'.
Traceback:
test_it.py:2: in <module>
    import no_such_module
E   ModuleNotFoundError: No module named 'no_such_module'"""
SYNTAX = """/usr/lib/python3.11/ast.py:50: in parse
    return compile(source, filename, mode, flags,
E     File "/x/test_it.py", line 1
E       def f(:
E             ^
E   SyntaxError: invalid syntax"""
WARNING = """structures.py:212: in _for_parametrize
E   pytest.PytestRemovedIn10Warning: Passing a non-Collection iterable
E   Please convert to a list or tuple."""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (IMPORT, "ModuleNotFoundError: No module named 'no_such_module'"),
        (SYNTAX, "SyntaxError: invalid syntax"),
        (WARNING, "pytest.PytestRemovedIn10Warning: Passing a non-Collection iterable"),
        ("E   fixture 'x' not found\nE   available fixtures: gang", "fixture 'x' not found"),
        ("ERROR: usage: pytest\n  unrecognized arguments: --color", "unrecognized arguments: --color"),
        ("", "no error message"),
    ],
    ids=["import", "syntax", "warning", "marked", "unmarked", "nothing"],
)
def test_the_cause_is_the_exception(text: str, line: str) -> None:
    assert cause(text) == line


@pytest.mark.parametrize(
    ("folder", "found"), [("/r/tests/dist", "tests/dist/"), ("/r", ""), ("", ""), ("/elsewhere", "")]
)
def test_ids_of_a_repository_begin_with_the_folder(folder: str, found: str) -> None:
    assert prefix(folder, Path("/r")) == found
