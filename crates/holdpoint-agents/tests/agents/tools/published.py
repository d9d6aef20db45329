"""An MCP server made with the published Python SDK, over HTTP on a free port, with sessions and streamed responses."""

import asyncio
import logging
import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("published")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
async def noted(text: str, context: Context) -> str:
    """Sends a progress notification before its result."""
    await context.report_progress(1, 2)
    return "noted " + text


async def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level=logging.WARNING)
    await uvicorn.Server(config).serve(sockets=[listener])


asyncio.run(main())
