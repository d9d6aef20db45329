"""An MCP server for the tests, without any package: over stdio, or with --http over HTTP on a free port.

Its tools misbehave on demand. With CONTROL_PORT=port in its environment it keeps a connection to the test and reports
events on it ("started 123", "cancelled"); the connection ends with the process. Each call of note and stall is a line
in the file NOTES. Over HTTP, /plain/NAME calls the tool with a plain request.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

out_lock = threading.Lock()
second_called = threading.Event()
answers = {}
answered = threading.Condition()
control = None

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = ["echo", "sum", "fail", "no", "die", "leave", "hang", "huge", "garbage", "where", "ask", "first", "second",
         "grandchild", "stop_reading", "requests", "forget", "streamed", "broken", "gone", "taken", "silent", "read.me",
         "picture", "note", "stall"]


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


def report(event):
    if control:
        control.sendall((event + "\n").encode())


def note(name, arguments, meta):
    """Records an execution of a tool. Returns the number of its executions."""
    line = {"tool": name, "text": arguments.get("text"), "key": meta.get("idempotencyKey")}
    with out_lock, open(os.environ["NOTES"], "a+") as notes:
        notes.write(json.dumps(line) + "\n")
        notes.flush()
        notes.seek(0)
        return sum(json.loads(line)["tool"] == name for line in notes)


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def perform(name, arguments, meta, send):
    """Returns the result of a tool. `send` sends a message to the client."""
    if name == "echo":
        return text(arguments.get("text", ""))
    if name == "sum":
        return text("3", structuredContent={"sum": 3, "key": meta.get("idempotencyKey")})
    if name == "fail":
        return text("it did not work", isError=True)
    if name == "die":
        os._exit(3)
    if name == "hang":
        report("hanging")
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
            send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        with answered:
            answered.wait_for(lambda: len(answers) == 3)
        return text(json.dumps({method: each.get("error", {}).get("message") for method, each in answers.items()}))
    if name == "first":
        second_called.wait()
        return text("first")
    if name == "second":
        second_called.set()
        return text("second")
    if name == "grandchild":
        fd = control.fileno()
        subprocess.Popen(["sleep", "1000"], pass_fds=[fd], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return text("there is a grandchild")
    if name in ("note", "stall"):
        times = note(name, arguments, meta)
        if name == "stall" and times == 1:
            threading.Event().wait()
        return text("noted " + arguments.get("text", ""))
    if name == "picture":
        return {"content": [{"type": "image", "data": "iVBORw0KGgoA", "mimeType": "image/png"}]}
    return text(name)


def respond(message, send):
    """Returns the response to a message, or None."""
    method, params = message.get("method"), message.get("params", {})
    if method is None:
        with answered:
            answers[message["id"]] = message
            answered.notify_all()
        return None
    if method == "notifications/cancelled":
        report("cancelled")
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
        result = perform(params["name"], params.get("arguments") or {}, params.get("_meta") or {}, send)
    else:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def stdio():
    def send(message):
        with out_lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def work(message):
        response = respond(message, send)
        if response:
            send(response)
        if message.get("params", {}).get("name") == "leave":
            os._exit(0)

    sys.stderr.write("a log line\n")
    for line in sys.stdin:
        message = json.loads(line)
        name = message.get("params", {}).get("name")
        if name == "stop_reading" and "STOP_READING" in os.environ:
            threading.Event().wait()
        threading.Thread(target=work, args=(message,), daemon=True).start()


class HttpHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions = set()
    received = []

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
        report("deleted")
        self.finish_with(200)

    def do_GET(self):
        self.finish_with(405)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.startswith("/plain/"):
            meta = {"idempotencyKey": self.headers.get("idempotency-key")}
            response = perform(self.path.removeprefix("/plain/"), message, meta, None)
            return self.finish_with(200, json.dumps(response["content"][0]["text"]).encode())
        session, method = self.headers.get("mcp-session-id"), message.get("method")
        name = message.get("params", {}).get("name")
        known = ("mcp-protocol-version", "authorization", "accept")
        self.received.append({"method": method, "session": session, **{key: self.headers.get(key) for key in known}})
        if name == "gone":
            self.sessions.clear()
        if method == "initialize":
            session = f"s{len(self.received)}"
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
        response = respond(message, None)
        if response is None:
            return self.finish_with(202)
        if name == "requests":
            response["result"] = text(json.dumps(self.received))
        body = json.dumps(response)
        if name == "streamed":
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
            body = f": hello\n\nevent: message\ndata: {note}\n\nevent: message\ndata: {body}\n\n"
            return self.finish_with(200, body.encode(), "text/event-stream", session)
        return self.finish_with(200, body.encode(), "application/json", session)


def main():
    global control
    if "CONTROL_PORT" in os.environ:
        control = socket.create_connection(("127.0.0.1", int(os.environ["CONTROL_PORT"])))
        report(f"started {os.getpid()}")
    if "--http" in sys.argv:
        server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 0))), HttpHandler)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    elif "--exit" in sys.argv:
        sys.exit(1)
    else:
        stdio()


main()
