import json

import pytest

from disttest_operator import metadata
from disttest_operator.ports import ClusterError

OBJECT = {
    "kind": "PartialObjectMetadata",
    "metadata": {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
    },
}


def test_of_each_object_is_kept_what_tells_its_version() -> None:
    raw = json.dumps({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [OBJECT]}).encode()
    meta = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    assert metadata.read(raw) == (([{"metadata": meta}], 9), "more")


def test_an_empty_list_of_metadata_has_no_list_at_all() -> None:
    raw = b'{"metadata": {"resourceVersion": "9"}, "items": null}'
    assert metadata.read(raw) == (([], 9), "")


@pytest.mark.parametrize(
    "raw", [b"", b"<html>", b'{"kind": "Status"}', b'{"metadata": {"resourceVersion": 9}, "items": []}', b'"\xff"']
)
def test_what_is_no_list_is_refused(raw: bytes) -> None:
    with pytest.raises(ClusterError, match="a list of metadata cannot be read"):
        metadata.read(raw)
