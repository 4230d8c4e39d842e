"""Any arguments of `disttest` result in output or one line of error, without control characters for the terminal."""

import contextlib
import io

from hypothesis import given
from hypothesis import strategies as st

from disttest_cli.errors import UsageError
from disttest_cli.kube import series as ledgers
from disttest_cli.main import COMMANDS, main
from disttest_cli.views import outputs
from disttest_contract.text import formatting
from tests.support.builders.strategies import texts
from tests.support.reports.hostile import ARGUMENT, forbidden

ARGUMENTS = texts | st.sampled_from((ARGUMENT, "-f", "-o", "-", "--", "@", "a@-1", "/", "x.json", "--series", "-n"))
READING = ("list", "describe", "logs", "history", "compare", "doctor", "explain")  # write no files, start nothing


@given(st.sampled_from((*READING, "", "nothing of the kind")), st.lists(ARGUMENTS, max_size=4))
def test_any_arguments_end_with_a_code_and_at_most_one_line(command: str, arguments: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([command, *arguments, "--kubeconfig", "/nonexistent"])
    assert code in {0, 2}
    assert err.getvalue().count("\n") <= 1
    assert forbidden(out.getvalue()) + forbidden(err.getvalue()) == []


@given(
    st.lists(st.builds("{}{}{}".format, texts | st.sampled_from(outputs.FORMATS), st.sampled_from(("", "=")), texts))
)
def test_outputs_are_formats_and_places_of_their_own_or_refused(values: list[str]) -> None:
    try:
        found = outputs.parse(values, outputs.FORMATS, default="text")
    except UsageError:
        return
    assert {one.format for one in found} <= set(outputs.FORMATS)
    assert len({one.path for one in found}) == len(found)


@given(st.text(st.characters(exclude_characters="@"), min_size=1), st.integers(-99, 0))
def test_a_night_is_read_as_it_was_written_or_refused(name: str, place: int) -> None:
    try:
        series, position = ledgers.split_reference(f"{name}@{place}")
    except UsageError:
        return
    assert f"{series}@{position}" == f"{name}@{place}"


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0, max_value=1e9))
def test_a_span_is_a_few_words_however_long_it_is(seconds: float) -> None:
    assert 0 < len(formatting.show_duration(seconds)) <= 12
    assert formatting.show_duration(seconds).isascii()


def test_every_command_that_only_reads_is_tried() -> None:
    assert set(COMMANDS) - set(READING) == {"run", "apply", "plan", "report"}
