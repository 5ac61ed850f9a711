"""The emulator of GCS, and what delta-rs asks of GCS besides: the XML API.

python -m tests.broker.gcs_emulator PORT BUCKET
"""

from __future__ import annotations

import sys
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from xml.sax.saxutils import escape

from gcp_storage_emulator import server
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects

from tests.broker.process import HOST


def describe(response: Any, found: dict[str, Any]) -> None:
    """Add the headers that tell of an object."""
    response["ETag"] = f'"{found["md5Hash"]}"'
    response["Last-Modified"] = formatdate(usegmt=True)


def list_objects(request: Any, response: Any, storage: Any) -> None:
    """List objects in one page, as version 2 of the XML API does."""
    query = {name: values[0] for name, values in request.query.items()}
    try:
        found, prefixes = storage.get_file_list(
            request.params["bucket_name"], query.get("prefix"), query.get("delimiter"), None
        )
    except NotFound:
        response.status = HTTPStatus.NOT_FOUND
        return
    contents = "".join(
        f"<Contents><Key>{escape(each['name'])}</Key><Size>{each['size']}</Size>"
        f"<LastModified>{each['updated']}</LastModified><ETag>{each['md5Hash']}</ETag></Contents>"
        for each in sorted(found, key=lambda each: each["name"])
        if each["name"] > query.get("start-after", "")
    )
    folders = "".join(
        f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes
    )
    response["Content-type"] = "application/xml"
    response.write_file(
        f"<ListBucketResult>{contents}{folders}</ListBucketResult>".encode(), "application/xml"
    )


def place(request: Any) -> tuple[str, str]:
    """Return bucket and name of the object that a request is about."""
    return request.params["bucket_name"], request.params["object_id"]


def get(request: Any, response: Any, storage: Any) -> None:
    """Return an object, or a part of it."""
    objects.download(request, response, storage)
    if response.status != HTTPStatus.NOT_FOUND:
        describe(response, storage.get_file_obj(*place(request)))


def put(request: Any, response: Any, storage: Any) -> None:
    """Store an object, unless there must be none and there is one."""
    if request.get_header("x-goog-if-generation-match") == "0":
        try:
            storage.get_file_obj(*place(request))
        except NotFound:
            pass
        else:
            response.status = HTTPStatus.PRECONDITION_FAILED
            return
    objects.xml_upload(request, response, storage)
    describe(response, storage.get_file_obj(*place(request)))


def main(port: str, bucket: str) -> None:
    """Serve one request after the other, until killed."""
    *known, (path, _) = server.HANDLERS
    server.HANDLERS = (
        *known,
        (r"^/(?P<bucket_name>[-.\w]+)$", {"GET": list_objects}),
        (path, {"GET": get, "PUT": put, "DELETE": objects.delete}),
    )
    server.create_server(HOST, int(port), in_memory=True, default_bucket=bucket).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
