"""An MCP server for the tests, without any package: over stdio, or with --http over HTTP on a free port.

Its tools misbehave on demand. With TETHER=port in its environment it keeps a connection to the test, which so hears
what happens here ("started 123", "cancelled") and when the process is gone. What note and stall have done is a line
each in the file NOTES, which outlives everybody. Over HTTP, /plain/NAME is the tool as a plain request.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

out_lock = threading.Lock()
second_came = threading.Event()
answers = {}
answered = threading.Condition()
tether = None

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = ["echo", "sum", "fail", "no", "die", "leave", "hang", "huge", "garbage", "where", "ask", "first", "second",
         "grandchild", "deaf", "heard", "forget", "streamed", "broken", "gone", "taken", "silent", "read.me", "picture",
         "note", "stall"]


def tools():
    hints = {"echo": {"idempotentHint": True}, "where": {"readOnlyHint": True}}
    listed = [{"name": name, "description": "does " + name, "inputSchema": TEXT} for name in NAMES]
    for tool in listed:
        if tool["name"] in hints:
            tool["annotations"] = hints[tool["name"]]
    listed += [{"name": f"more_{n}", "inputSchema": {"type": "object"}} for n in range(int(os.environ.get("MORE", 0)))]
    if "LARGE" in os.environ:
        listed.insert(0, {"name": "large", "inputSchema": {"type": "object", "description": "x" * 70_000}})
    return listed


def tell(word):
    if tether:
        tether.sendall((word + "\n").encode())


def note(name, arguments, meta):
    """Writes down that a tool was carried out; how often it was by now."""
    line = {"tool": name, "text": arguments.get("text"), "key": meta.get("idempotencyKey")}
    with out_lock, open(os.environ["NOTES"], "a+") as notes:
        notes.write(json.dumps(line) + "\n")
        notes.flush()
        notes.seek(0)
        return sum(json.loads(line)["tool"] == name for line in notes)


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def perform(name, arguments, meta, say):
    """The result of a tool; say sends a message to the client."""
    if name == "echo":
        return text(arguments.get("text", ""))
    if name == "sum":
        return text("3", structuredContent={"sum": 3, "key": meta.get("idempotencyKey")})
    if name == "fail":
        return text("it did not work", isError=True)
    if name == "die":
        os._exit(3)
    if name == "hang":
        tell("hanging")
        threading.Event().wait()
    if name == "huge":
        return text("x" * int(arguments["text"]))
    if name == "garbage":
        with out_lock:
            sys.stdout.write("not json\n{\"half\": \n\n[]\n\x00\xff\n")
            sys.stdout.flush()
        return text("after the garbage")
    if name == "where":
        return text(json.dumps({"env": dict(os.environ), "folder": os.getcwd(), "group": os.getpgid(0) == os.getpid()}))
    if name == "ask":
        for method in ("elicitation/create", "sampling/createMessage", "roots/list"):
            params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            if method.startswith("sampling"):
                params = {"messages": [], "maxTokens": 1}
            say({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        with answered:
            answered.wait_for(lambda: len(answers) == 3)
        return text(json.dumps({method: said.get("error", {}).get("message") for method, said in answers.items()}))
    if name == "first":
        second_came.wait()
        return text("first")
    if name == "second":
        second_came.set()
        return text("second")
    if name == "grandchild":
        fd = tether.fileno()
        subprocess.Popen(["sleep", "1000"], pass_fds=[fd], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return text("there is a grandchild")
    if name in ("note", "stall"):
        times = note(name, arguments, meta)
        if name == "stall" and times == 1:
            threading.Event().wait()
        return text("noted " + arguments.get("text", ""))
    if name == "picture":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    return text(name)


def answer(message, say):
    """The answer to a request, or nothing."""
    method, params = message.get("method"), message.get("params", {})
    if method is None:
        with answered:
            answers[message["id"]] = message
            answered.notify_all()
        return None
    if method == "notifications/cancelled":
        tell("cancelled")
    if "id" not in message:
        return None
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "tests", "version": "1"}}
    elif method == "ping":
        result = {}
    elif method == "tools/list":
        result = {"tools": tools()}
    elif method == "tools/call" and params["name"] == "no":
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "not like this"}}
    elif method == "tools/call":
        result = perform(params["name"], params.get("arguments") or {}, params.get("_meta") or {}, say)
    else:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def stdio():
    def say(message):
        with out_lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def work(message):
        said = answer(message, say)
        if said:
            say(said)
        if message.get("params", {}).get("name") == "leave":
            os._exit(0)

    sys.stderr.write("a complaint\n")
    for line in sys.stdin:
        message = json.loads(line)
        name = message.get("params", {}).get("name")
        if name == "deaf" and "DEAF" in os.environ:
            threading.Event().wait()
        threading.Thread(target=work, args=(message,), daemon=True).start()


class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions = set()
    heard = []

    def log_message(self, *_):
        pass

    def finish_with(self, status, body=b"", kind="application/json", session=None):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self):
        self.sessions.discard(self.headers.get("mcp-session-id"))
        tell("deleted")
        self.finish_with(200)

    def do_GET(self):
        self.finish_with(405)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.startswith("/plain/"):
            meta = {"idempotencyKey": self.headers.get("idempotency-key")}
            said = perform(self.path.removeprefix("/plain/"), message, meta, None)
            return self.finish_with(200, json.dumps(said["content"][0]["text"]).encode())
        session, method = self.headers.get("mcp-session-id"), message.get("method")
        name = message.get("params", {}).get("name")
        known = ("mcp-protocol-version", "authorization", "accept")
        self.heard.append({"method": method, "session": session, **{key: self.headers.get(key) for key in known}})
        if name == "gone":
            self.sessions.clear()
        if method == "initialize":
            session = f"s{len(self.heard)}"
            self.sessions.add(session)
        elif session not in self.sessions:
            return self.finish_with(404)
        if name == "broken":
            return self.finish_with(500, b"out of order", "text/plain")
        if name == "taken":
            return self.finish_with(202)
        if name == "silent":
            return self.finish_with(200, b"id: 1\ndata: \n\n: nothing more\n\n", "text/event-stream")
        if name == "forget":
            self.sessions.clear()
        if name == "die":
            self.connection.close()
            os._exit(3)
        said = answer(message, None)
        if said is None:
            return self.finish_with(202)
        if name == "heard":
            said["result"] = text(json.dumps(self.heard))
        body = json.dumps(said)
        if name == "streamed":
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
            body = f": hello\n\nevent: message\ndata: {note}\n\nevent: message\ndata: {body}\n\n"
            return self.finish_with(200, body.encode(), "text/event-stream", session)
        return self.finish_with(200, body.encode(), "application/json", session)


def main():
    global tether
    if "TETHER" in os.environ:
        tether = socket.create_connection(("127.0.0.1", int(os.environ["TETHER"])))
        tell(f"started {os.getpid()}")
    if "--http" in sys.argv:
        server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 0))), Web)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    elif "--exit" in sys.argv:
        sys.exit(1)
    else:
        stdio()


main()
