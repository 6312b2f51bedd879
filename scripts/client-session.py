"""Does the work of a session with the client that openapi-python-client generates, on the server at GARTH_URL."""

import os

from garth_client import AuthenticatedClient
from garth_client.api.context import context_pack
from garth_client.api.fs import fs_get, fs_put
from garth_client.api.kv import kv_get, kv_put
from garth_client.api.recall import recall
from garth_client.api.search import search
from garth_client.api.sessions import sessions_append, sessions_create
from garth_client.models import (
    ContextPackRequest,
    Error,
    KvGetRequest,
    KvPutRequest,
    RecallRequest,
    SearchRequest,
    SessionMessage,
    SessionsAppendRequest,
    SessionsCreateRequest,
)
from garth_client.types import File

SESSION = {"agent": "scout", "user": "ann", "name": "trip"}


def message(role, content):
    """Returns a message of a session."""
    return SessionMessage.from_dict({"role": role, "content": content})


def main():
    url, key = os.environ["GARTH_URL"], os.environ["GARTH_KEY"]
    client = AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True)

    put = kv_put.sync(client=client, body=KvPutRequest(path="/user/drink", value="Black coffee", searchable=True))
    assert put.ok and put.version_id.startswith("ver_"), put
    found = kv_get.sync(client=client, body=KvGetRequest(path="/user/drink"))
    assert found.found and found.value == "Black coffee", found
    refused = kv_put.sync(client=client, body=KvPutRequest(path="/user/drink", value="Tea", if_absent=True))
    assert isinstance(refused, Error) and refused.error.code == "CONFLICT", refused

    stored = fs_put.sync("plans/trip.md", client=client, body=File(payload=b"Pack a coat.\n"))
    assert stored.path == "/plans/trip.md" and stored.size == 13, stored
    read = fs_get.sync("plans/trip.md", client=client)
    assert read.payload.read() == b"Pack a coat.\n", read

    created = sessions_create.sync(client=client, body=SessionsCreateRequest(**SESSION))
    assert created.ok, created
    messages = [message("user", "Book a room in Lisbon."), message("assistant", "Booked Hotel Ria, room 12.")]
    appended = sessions_append.sync(client=client, body=SessionsAppendRequest(**SESSION, messages=messages))
    assert len(appended.messages) == 2, appended
    packed = context_pack.sync(client=client, body=ContextPackRequest(**SESSION, budget=2000))
    assert "Hotel Ria" in packed.content, packed

    body = RecallRequest(question="Which hotel is booked?", agent="scout", user="ann")
    recalled = recall.sync(client=client, body=body)
    assert recalled.fits and "Hotel Ria" in recalled.text, recalled
    results = search.sync(client=client, body=SearchRequest(query="black coffee")).results
    assert results and results[0].path == "/user/drink", results
    print("the Python client has put, read, appended, packed, recalled and searched")


main()
