"""What ranks put into collectives: wrong in no way that could look right."""

import pytest

torch = pytest.importorskip("torch")

from disttest_runner.process_group.gang import Gang  # noqa: E402 - torch first, or nothing
from disttest_runner.suites.collectives import values  # noqa: E402 - same

WORLDS = [1, 2, 3, 6, 7, 8, 31, 32, 33, 64, 100, 512]


def gang(world_size: int, rank: int = 0) -> Gang:
    return Gang(
        rank=rank,
        world_size=world_size,
        local_rank=0,
        node_index=0,
        device=torch.device("cpu"),
        backend="gloo",
        generation=1,
    )


@pytest.mark.parametrize("world_size", WORLDS)
def test_the_total_is_the_sum_of_all_contributions(world_size: int) -> None:
    here = gang(world_size)
    for turn in values.TURNS:
        parts = [values.contribution(rank, 97, here, torch.int64, offset=5, turn=turn) for rank in range(world_size)]
        assert torch.equal(values.total(97, here, torch.int64, offset=5, turn=turn), torch.stack(parts).sum(0))


@pytest.mark.parametrize("world_size", WORLDS)
def test_totals_are_exact_in_bytes_and_bfloat16_and_never_nothing(world_size: int) -> None:
    for turn in values.TURNS:
        total = values.total(997, gang(world_size), torch.int64, turn=turn)
        assert total.min() >= 1
        assert total.max() <= 255
        assert torch.equal(total.to(torch.bfloat16).long(), total)


@pytest.mark.parametrize("world_size", WORLDS)
def test_no_total_is_the_same_in_the_next_turn(world_size: int) -> None:
    """What is left of an earlier call is seen in each element."""
    first, second = (values.total(997, gang(world_size), torch.int64, turn=turn) for turn in values.TURNS)
    assert (first != second).all()


def test_no_two_ranks_contribute_the_same_and_nobody_contributes_nothing() -> None:
    here = gang(512)
    seen = {tuple(values.contribution(rank, 200, here, torch.int64).tolist()) for rank in range(512)}
    assert len(seen) == 512
    assert (0,) * 200 not in seen


@pytest.mark.parametrize("shift", [1, 5, 6, 30, 31, 180, 1031])
def test_what_lands_at_the_wrong_place_is_wrong(shift: int) -> None:
    here = gang(4)
    right = values.contribution(1, 500, here, torch.int64)
    assert not torch.equal(right, values.contribution(1, 500, here, torch.int64, offset=shift))


def test_values_are_the_same_beyond_the_first_slice() -> None:
    count = values.SLICE + 300
    whole = values.contribution(2, count, gang(4), torch.float32)
    tail = values.contribution(2, 400, gang(4), torch.float32, offset=count - 400)
    assert torch.equal(whole[-400:], tail)
    assert torch.equal(whole[:400], values.contribution(2, 400, gang(4), torch.float32))


def test_wrong_elements_are_counted_in_all_slices_and_the_first_is_named() -> None:
    right = torch.zeros(values.SLICE + 300)
    got = right.clone()
    got[[70, values.SLICE - 1, values.SLICE, -1]] = 3
    wrong, message = values.count_wrong(got, lambda count, offset: right[offset : offset + count])
    assert wrong == 4
    assert message == f"4 of {len(right)} elements are wrong; the first at 70: 3 instead of 0"
    assert values.count_wrong(right, lambda count, offset: right[offset : offset + count]) == (0, "")


def test_a_nan_is_wrong() -> None:
    expected = torch.zeros(3)
    assert (
        values.count_wrong(torch.tensor([0, torch.nan, 0]), lambda count, offset: expected[offset : offset + count])[0]
        == 1
    )
