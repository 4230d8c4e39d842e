"""Wrong manifests are refused at admission, in words that help."""

import pytest

from tests.data.right_manifests import RIGHT, Right
from tests.data.wrong import Wrong
from tests.data.wrong_manifests import WRONG
from tests.support.clusters.api import Api


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id)
def test_a_wrong_manifest_is_refused_with_a_sentence(wrong: Wrong, api: Api) -> None:
    status, answer = api.dry_run(wrong.manifest)
    assert 400 <= status < 500, f"accepted: {answer}"
    assert (wrong.server or wrong.parser) in answer["message"]


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: right.id)
def test_a_manifest_at_the_edge_of_what_is_allowed_is_accepted(right: Right, api: Api) -> None:
    status, answer = api.dry_run(right.manifest)
    assert status == 201, answer["message"]
