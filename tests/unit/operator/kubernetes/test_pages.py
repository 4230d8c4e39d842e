import json
from typing import Any

import pytest

from disttest_operator.core.api.api_errors import ApiServerError
from disttest_operator.kubernetes import api_client

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


def test_a_page_of_metadata_keeps_only_what_a_comparison_of_versions_needs() -> None:
    raw = json.dumps({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [OBJECT]}).encode()
    meta = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    assert api_client.read_page(raw, api_client.METADATA_PAGE) == (([{"metadata": meta}], 9), "more")


def test_an_empty_list_of_metadata_has_no_items() -> None:
    raw = b'{"metadata": {"resourceVersion": "9"}, "items": null}'
    assert api_client.read_page(raw, api_client.METADATA_PAGE) == (([], 9), "")


def test_a_page_of_objects_keeps_all_fields() -> None:
    raw = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [OBJECT]}).encode()
    assert api_client.read_page(raw, api_client.OBJECT_PAGE) == (([OBJECT], 9), "")


NO_LISTS = (b"", b"<html>", b'{"kind": "Status"}', b'{"metadata": {"resourceVersion": "x"}, "items": []}', b'"\xff"')


@pytest.mark.parametrize("raw", NO_LISTS)
@pytest.mark.parametrize("decoder", [api_client.METADATA_PAGE, api_client.OBJECT_PAGE])
def test_a_response_that_is_no_list_is_an_error(decoder: Any, raw: bytes) -> None:
    with pytest.raises(ApiServerError, match="cannot be read"):
        api_client.read_page(raw, decoder)
