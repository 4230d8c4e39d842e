"""What the cases of tests/data/upstream come to on a gang of two ranks, on gloo: case -> outcome and words."""

from disttest_contract.outcomes import Outcome

PASSED, FAILED, SKIPPED, NOT_RUN = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_RUN

Row = tuple[Outcome, str]

TABLE: dict[str, Row] = {
    # However a class has its ranks meet, they meet at the store of the gang.
    "TestMeetings::test_by_file_store": (PASSED, ""),
    "TestMeetings::test_by_imported_file_store": (PASSED, ""),
    "TestMeetings::test_by_file_twice": (PASSED, ""),
    "TestMeetings::test_by_a_fixed_port": (PASSED, ""),
    "TestMeetings::test_by_address": (PASSED, ""),
    "TestMeetings::test_seeds_are_alike": (PASSED, ""),
    "TestMeetings::test_left_group_is_destroyed": (PASSED, ""),
    # Exit codes keep their meaning, and a failure poisons nothing.
    "TestEndings::test_fails_on_rank_1": (FAILED, "wrong on rank one"),
    "TestEndings::test_fails_while_the_other_waits": (FAILED, "the cause"),
    "TestEndings::test_after_failures": (PASSED, ""),
    "TestEndings::test_skips_by_code": (SKIPPED, "no GPU peer access"),
    "TestEndings::test_skips_by_exception": (SKIPPED, "not today"),
    "TestEndings::test_leaves_with_zero": (PASSED, ""),
    "TestEndings::test_leaves_with_error": (FAILED, "exited with code 10"),
    "TestEndings::test_leaves_with_three": (FAILED, "exited with code 3"),
    "TestEndings::test_fails_as_expected": (Outcome.XFAILED, ""),
    "TestEndings::test_fails_as_expected_on_rank_1": (Outcome.XFAILED, ""),
    "TestEndings::test_skipped_by_decorator": (SKIPPED, "never"),
    "TestCodes::test_aborts": (NOT_RUN, "must exit with code -6"),
    "TestCodes::test_may_leave_anyhow": (PASSED, ""),
    # What the machine lacks is seen before anything is started.
    "TestNeeds::test_two_gpus": (SKIPPED, "Need at least 2 CUDA devices"),
    "TestNeeds::test_eight_ranks": (SKIPPED, "small world size"),
    "TestNeeds::test_behind_another_decorator": (SKIPPED, "Need at least 2 CUDA devices"),
    # A world that does not fit never counts as passed.
    "TestOneRank::test_alone": (PASSED, ""),
    "TestManyRanks::test_never": (NOT_RUN, "requires 64 ranks, but the gang has 2"),
    "TestNoRanks::test_never": (NOT_RUN, "requires 0 ranks"),
    "TestChanges::test_1_changes": (PASSED, ""),
    "TestChanges::test_2_finds_nothing_changed": (PASSED, ""),
    "TestBase::test_group": (PASSED, ""),
    # Continuous classes
    "TestGroup::test_sum_factor_1": (PASSED, ""),
    "TestGroup::test_sum_factor_2": (PASSED, ""),
    "TestGroup::test_group_is_kept_1": (PASSED, ""),
    "TestGroup::test_group_is_kept_2": (PASSED, ""),
    "TestGroup::test_subgroup": (PASSED, ""),
    "TestFailure::test_1_fails_on_rank_1": (FAILED, ""),
    "TestFailure::test_2_is_not_poisoned": (PASSED, ""),
    "TestTooMany::test_never": (NOT_RUN, "requires 64 ranks"),
    "TestAlone::test_alone": (PASSED, ""),
    # Threads
    "TestThreads::test_gather": (PASSED, ""),
    "TestThreads::test_fails_on_rank_1": (FAILED, ""),
    "TestManyThreads::test_four": (NOT_RUN, "requires 4 ranks"),
    "TestOwnThreads::test_three": (PASSED, ""),
    # Distributed tensors and FSDP
    "TestTensors::test_shards": (PASSED, ""),
    "TestFourRanks::test_shards": (NOT_RUN, "requires 4 ranks"),
    "TestTensorThreads::test_shards": (PASSED, ""),
    "TestFsdpThreads::test_threads": (PASSED, ""),
    # RPC
    "TensorPipeCallTest::test_call": (PASSED, ""),
    "TensorPipeCallTest::test_remote_reference": (PASSED, ""),
    # One process is enough
    "TestTorch::test_add": (PASSED, ""),
    "TestUnittest::test_world_of_one": (PASSED, ""),
    "test_no_rank_is_set": (PASSED, ""),
    "test_file_store_is_torchs_own": (PASSED, ""),
    "test_with_our_fixture": (PASSED, ""),
    "test_skipped": (SKIPPED, "not now"),
    "test_fails": (FAILED, "assert"),
}

# What depends on the torch: a case may be missing there, or has one of these results.
SOMETIMES: dict[str, tuple[Row, ...]] = {
    "TestNeeds::test_nccl_is_built": ((PASSED, ""), (SKIPPED, "NCCL")),
    "TestNeeds::test_two_gpus_or_none": ((PASSED, ""),),
    "TestContinuous::test_shards": ((PASSED, ""),),
    "TestPretended::test_shards": ((PASSED, ""),),
    "TestFsdp::test_two_ranks": ((SKIPPED, "Need at least 2 CUDA devices"), (PASSED, "")),
}


def name(case_id: str) -> str:
    """Of a case in the table."""
    return case_id.partition("::")[2]


def differences(found: dict[str, Row]) -> list[str]:
    """In sentences."""
    known = {case: (row,) for case, row in TABLE.items()} | SOMETIMES
    wrong = [f"{case} was not run" for case in TABLE.keys() - found.keys()]
    for case, (outcome, message) in found.items():
        allowed = known.get(case, ())
        if not any(outcome is expected and words in message for expected, words in allowed):
            wrong.append(f"{case}: {outcome.value}, expected one of {allowed}: {message}")
    return wrong
