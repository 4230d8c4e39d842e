import json
from collections.abc import Callable

import pytest

from disttest_operator.kubernetes import api_client
from disttest_operator.kubernetes.ports import ClusterError

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
    assert api_client.read_metadata_page(raw) == (([{"metadata": meta}], 9), "more")


def test_an_empty_list_of_metadata_has_no_list_at_all() -> None:
    raw = b'{"metadata": {"resourceVersion": "9"}, "items": null}'
    assert api_client.read_metadata_page(raw) == (([], 9), "")


NO_LISTS = (b"", b"<html>", b'{"kind": "Status"}', b'{"metadata": {"resourceVersion": "x"}, "items": []}', b'"\xff"')


@pytest.mark.parametrize("raw", NO_LISTS)
@pytest.mark.parametrize("read", [api_client.read_page, api_client.read_metadata_page])
def test_what_is_no_list_is_refused(read: Callable[[bytes], object], raw: bytes) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        read(raw)
