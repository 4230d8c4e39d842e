"""What `disttest run` was asked for, and what of it excludes each other. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from disttest_contract import suites
from disttest_contract.plan import FOR_EVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Empty, 0 or None where nothing was said. `repeat`: how often, None for once."""

    filename: str = ""
    paths: tuple[Path, ...] = ()
    suites: tuple[str, ...] = ()
    ranks: int | None = None
    nodes: int | None = None
    backend: str | None = None
    select: str = ""
    cases: tuple[str, ...] = ()
    repeat: int | None = None
    until_fail: bool = False
    keep_going: bool = False
    files: tuple[str, ...] = ()
    timeout: int | None = None
    case_timeout: int | None = None

    @property
    def times(self) -> int:
        """Up to the first failure goes on for ever, unless a number is given."""
        return self.repeat or (FOR_EVER if self.until_fail else 1)

    @property
    def is_plain(self) -> bool:
        return self.times == 1 and not self.until_fail


def problem(request: Request) -> str:
    """The first rule that is broken, as a sentence that says what to write instead."""
    return next((sentence for is_broken, sentence in _rules(request) if is_broken), "")


def _rules(request: Request) -> Sequence[tuple[bool, str]]:
    shape = next((f"--{name}" for name in ("ranks", "nodes", "backend") if getattr(request, name)), "")
    named = next((str(path) for path in request.paths if "::" in str(path)), "")
    file, _, case = named.partition("::")
    return (
        (not (request.filename or request.paths or request.suites), f"say what to run: {WHAT}"),
        (
            bool(request.filename and request.paths),
            "-f and PATH exclude each other: a file names its suites itself, --suite chooses among them",
        ),
        (
            bool(request.filename and shape),
            f"{shape} is for --suite and PATH: with -f the file says it, as `nodes`, `ranksPerNode` or `backend`",
        ),
        (
            bool(request.files and not request.filename),
            "--files is for the ConfigMaps that a file names (-f): to run your own tests write their PATH",
        ),
        (bool(named), f"{named} is a case, not a path: write {file} --case {Path(file).name}::{case}"),
        (
            bool(request.timeout and (request.case_timeout or 0) > request.timeout),
            f"--case-timeout {request.case_timeout} is more than --timeout {request.timeout}: no case outlives its run",
        ),
        (bool(request.cases and request.select), "--case and --select exclude each other: ids are exact already"),
        (
            request.until_fail and request.keep_going,
            "--until-fail and --keep-going exclude each other: one ends with the first failure, one goes on after it",
        ),
    )


def listing() -> str:
    """Every suite in a line."""
    width = max(map(len, suites.SUMMARIES))
    return "\n".join(f"  {name.ljust(width)}  {summary}" for name, summary in sorted(suites.SUMMARIES.items()))


WHAT = (
    "--suite NAME, a PATH with test files of your own, or -f FILE with DistTests; "
    f"suites: {', '.join(sorted(suites.SUMMARIES))}"
)


def of_one_suite(request: Request, names: Sequence[str]) -> str:
    """A sentence, if what was asked for makes sense for one suite only and there are several."""
    if len(names) == 1:
        return ""
    several = f"there are {len(names)} ({', '.join(names[:4])}{', …' if len(names) > 4 else ''}): say --suite NAME"
    if request.cases:
        return f"--case names cases of one suite, but {several}"
    if request.until_fail:
        return f"--until-fail repeats the cases of one suite, but {several}"
    return ""
