"""Stores checkpoints in a file, so that they survive a kill of the server."""

import os
from contextlib import asynccontextmanager

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@asynccontextmanager
async def make():
    async with AsyncSqliteSaver.from_conn_string(os.environ["GRAPHS_CHECKPOINTS"]) as saver:
        yield saver
