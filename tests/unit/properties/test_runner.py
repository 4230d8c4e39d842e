"""What agents, leader and ranks hear: any bytes in any pieces, of strangers and of code under test."""

import functools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.text import json_values
from disttest_runner.agent import local_ranks
from disttest_runner.leader.replies import Replies, agreed
from disttest_runner.output.log import LINE_BYTES
from disttest_runner.protocol.join_protocol import JoinRefusedError, check_hello
from disttest_runner.protocol.wire import LineProtocol, WireError, pack, unpack
from disttest_runner.results.blame import IDLE, WaitEnd
from tests.support.builders import strategies as some
from tests.support.builders.run_plans import THREE_NODES as PLAN
from tests.unit.runner.protocol.test_join_protocol import agent


@given(st.binary(max_size=200) | some.json_values.map(some.as_bytes))
def test_any_line_is_an_object_or_refused(raw: bytes) -> None:
    try:
        message = unpack(raw)
    except WireError:
        return
    assert isinstance(message, dict)


@given(st.dictionaries(some.texts, some.json_values, max_size=4))
def test_a_message_is_read_as_it_was_written_and_has_one_line(message: dict[str, Any]) -> None:
    raw = pack(message)
    assert raw.count(b"\n") == 1
    assert json.dumps(unpack(raw)) == json.dumps(message)


def pieces(raw: bytes, sizes: list[int]) -> list[bytes]:
    found = []
    for size in sizes:
        found.append(raw[:size])
        raw = raw[size:]
    return [*found, raw]


@given(st.lists(st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"")), max_size=8), some.chunks)
def test_lines_are_the_same_in_whatever_pieces_they_come(lines: list[bytes], sizes: list[int]) -> None:
    said: list[bytes] = []
    ends = LineProtocol(lambda _, raw: said.append(raw), lambda _: None)
    for piece in pieces(b"".join(line + b"\n" for line in lines), sizes):
        ends.feed(piece)
    assert said == lines


lines_of_any_length = st.lists(st.integers(0, 60).map(lambda size: b"x" * size), max_size=8).map(b"\n".join)


@given(lines_of_any_length, some.chunks, st.integers(1, 50))
def test_no_line_beyond_its_limit_is_returned_or_buffered(raw: bytes, sizes: list[int], limit_bytes: int) -> None:
    said: list[bytes] = []
    ends = LineProtocol(lambda _, line: said.append(line), lambda _: None, limit_bytes)
    for piece in pieces(raw, sizes):
        ends.feed(piece)
    assert max(map(len, said), default=0) <= limit_bytes
    assert ends._is_closing or ends._pending_bytes <= limit_bytes


HELLO = json.loads(pack(agent(1).to_message()))


@given(some.spoiled(HELLO) | st.dictionaries(some.texts, some.json_values, max_size=3))
def test_any_json_of_a_new_connection_is_an_agent_or_refused(message: Any) -> None:
    check = functools.partial(check_hello, plan=PLAN, nonce="secret", joined={})
    hello, refusal = some.tried(JoinRefusedError, check, message)
    assert hello or refusal.startswith("refused: ")
    if hello:
        assert message["nonce"] == "secret"
        assert 0 <= hello.node_index < PLAN.nodes


DONE = {
    "op": "done",
    "case": 3,
    "outcome": "passed",
    "seconds": 0.5,
    "message": "",
    "measured": [["all_reduce", "float32", 4, 1, 1.0, 0.5, 0]],
}
COLLECTED = {"op": "collected", "digest": "00", "ids": ["a", "b"], "error": "", "note": "", "settings": {}}
NONSENSE = (KeyError, ValueError, TypeError)  # for which an agent drops the line and continues


@given(some.spoiled(DONE))
@example({**DONE, "seconds": float("inf")})
@example({**DONE, "seconds": "1e999"})
@example({**DONE, "measured": [["all_reduce", "float32", 10**400, 1, 1.0, 0.5, 0]]})
def test_whatever_a_rank_says_of_a_case_the_report_can_hold_it_or_it_is_dropped(message: dict[str, Any]) -> None:
    try:
        parsed = local_ranks.checked_result(message)
    except NONSENSE:
        return
    assert json_values.loads(json.dumps(parsed["seconds"])) >= 0
    json_values.loads(json.dumps(parsed.get("measured")))
    assert len(parsed["message"]) <= LINE_BYTES


@given(some.spoiled(COLLECTED))
@example({**COLLECTED, "ids": "ab"})
@example({**COLLECTED, "ids": [["a"]]})
def test_whatever_a_rank_says_it_collected_is_a_list_of_ids_or_dropped(message: dict[str, Any]) -> None:
    try:
        parsed = local_ranks.checked_collection(message)
    except NONSENSE:
        return
    assert all(isinstance(case_id, str) for case_id in parsed["ids"])


words = st.tuples(st.sampled_from([*Outcome, IDLE]).map(str), st.text(max_size=5)).map(list)


@given(st.lists(words, min_size=1, max_size=4))
def test_a_short_cut_is_taken_only_where_all_nodes_said_the_same_and_nothing_bad(said: list[list[str]]) -> None:
    by_node = {node: {"all": word, "seconds": 1.0} for node, word in enumerate(said)}
    answers = Replies(end=WaitEnd.ALL, seconds=1.0, by_node=by_node, early={}, before_exit=frozenset())
    result = agreed("c", answers, {})
    if result is not None:
        assert all(word == said[0] for word in said)
        assert result.outcome == said[0][0]
        assert result.outcome not in BAD


def test_a_rank_that_writes_more_than_a_message_is_cut() -> None:
    with pytest.raises(KeyError):
        local_ranks.checked_result({})
    assert len(local_ranks.checked_result({**DONE, "message": "x" * 10**6})["message"]) == 4096
