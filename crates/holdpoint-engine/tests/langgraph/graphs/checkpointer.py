"""Keeps checkpoints in a file, so that a server that was killed finds them again."""

import os
from contextlib import asynccontextmanager

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@asynccontextmanager
async def make():
    async with AsyncSqliteSaver.from_conn_string(os.environ["GRAPHS_CHECKPOINTS"]) as saver:
        yield saver
