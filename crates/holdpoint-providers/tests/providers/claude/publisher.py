"""An MCP server with one tool, `publish`, over stdin and stdout: publisher.py FILE [PORT]

Each call with an effect is a line in FILE. The id that the caller gave identifies a call; a repeated call has no
effect. With a port, the first call connects to it after the effect, and waits for a line before it returns its result.
"""

import json
import os
import socket
import sys

FILE, PORT = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
TOOL = {"name": "publish", "description": "Publishes a text",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}


def published():
    return [json.loads(line) for line in open(FILE)] if os.path.exists(FILE) else []


def publish(params):
    name = params.get("_meta", {}).get("claudecode/toolUseId")
    before = published()
    if not any(each["name"] == name for each in before):
        with open(FILE, "a") as file:
            file.write(json.dumps({"name": name, "text": params["arguments"]["text"]}) + "\n")
        if PORT:
            with socket.create_connection(("127.0.0.1", int(PORT))) as line:
                line.sendall(f"here {os.getppid()}\n".encode())
                line.makefile().readline()
    return {"content": [{"type": "text", "text": f"published {len(published())} in all"}]}


def answer(message):
    method, params = message.get("method"), message.get("params", {})
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "publisher", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return publish(params)
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}), flush=True)
