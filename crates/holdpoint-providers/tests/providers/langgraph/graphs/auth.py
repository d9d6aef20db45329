"""Accepts requests with the token from the environment."""

import os
import secrets

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(headers: dict) -> dict:
    given = headers.get(b"authorization", b"")
    expected = f"Bearer {os.environ['GRAPHS_TOKEN']}".encode()
    if not secrets.compare_digest(given, expected):
        raise Auth.exceptions.HTTPException(status_code=401, detail="invalid token")
    return {"identity": "holdpoint", "is_authenticated": True}
