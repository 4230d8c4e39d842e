"""From what agents answered to the evidence on a case. No I/O, no clock."""

import dataclasses
from collections.abc import Mapping

from disttest_runner.blame import End, Evidence, Said
from disttest_runner.diagnosis import leading
from disttest_runner.step import Answers


def evidence(answers: Answers, exits: Mapping[int, int], causes: Mapping[int, str], *, ranks_per_node: int) -> Evidence:
    """As it was when waiting for the case ended."""
    said, slowest = dict(answers.early), 0.0
    for node, answer in answers.by_node.items():
        slowest = max(slowest, float(answer["seconds"]))
        first = node * ranks_per_node
        if "all" in answer:
            same = Said.read(answer["all"])
            said.update(dict.fromkeys(range(first, first + ranks_per_node), same))
        else:
            said.update({int(rank): Said.read(words) for rank, words in answer["ranks"].items()})
    return Evidence(
        end=answers.end,
        seconds=slowest if answers.end is End.ALL else answers.seconds,
        said=said,
        exits=dict(exits),
        exit_causes=dict(causes),
        failed_first=answers.before_exit,
    )


def with_stacks(before: Evidence, answers: Answers, exits: Mapping[int, int]) -> Evidence:
    """What unfinished ranks were doing, and what finished ones said. A node that did not answer is left out."""
    each = answers.by_node.values()
    more = {int(rank): Said.read(words) for answer in each for rank, words in answer["said"].items()}
    return dataclasses.replace(before, said={**before.said, **more}, seen=leading.seen(each), exits=dict(exits))
