"""A stand-in for the chat completions API of a model, for the tests of the provider in main.rs.

    python stand_in_model.py    # prints its address

The model calls `publish` with a new text after each message of the user, and again after each rejection. Once the text is
published it answers with a text. A message that contains FAIL gets an error instead.
"""

import json
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def reply(messages):
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    results = [message["content"] for message in messages[last:] if message["role"] == "tool"]
    turns = sum(message["role"] == "user" for message in messages)
    if any("IT-IS-SENT" in result for result in results):
        return {"role": "assistant", "content": f"published after {turns} messages"}, "stop"
    call = {"name": "publish", "arguments": json.dumps({"text": f"letter-{turns}-{len(results)}"})}
    calls = [{"id": "call_" + uuid.uuid4().hex, "type": "function", "function": call}]
    return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = request["messages"]
        users = [message["content"] for message in messages if message["role"] == "user"]
        if "FAIL" in users[-1]:
            self.respond(400, {"error": {"message": "scripted", "type": "invalid_request_error"}})
            return
        message, reason = reply(messages)
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self.respond(200, {
            "id": "chatcmpl-" + uuid.uuid4().hex, "object": "chat.completion", "created": 0,
            "model": request["model"], "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        })

    def respond(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
server.serve_forever()
