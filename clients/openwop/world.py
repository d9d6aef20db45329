"""A server for each test class, the workflows of the tests, and a receiver of webhooks."""

import http.server
import json
import os
import queue
import subprocess
import tempfile
import threading
import unittest
import urllib.request

KEY = "a-key-for-tests-only"


def node(name, type_id, config):
    return {"id": name, "typeId": type_id, "name": name, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}}


def sequence(name, *nodes):
    """Returns a workflow with a sequence of nodes."""
    edges = [
        {"id": f"{a['id']}-{b['id']}", "sourceNodeId": a["id"], "targetNodeId": b["id"]}
        for a, b in zip(nodes, nodes[1:])
    ]
    rest = {"triggers": [], "variables": [], "metadata": {}, "settings": {}}
    return {"id": name, "name": name, "version": "1", "nodes": list(nodes), "edges": edges, **rest}


GATED = sequence(
    "gated",
    node("before", "core.noop", {}),
    node("gate", "core.approvalGate", {"title": "Go on?", "actions": ["accept", "reject"]}),
    node("after", "core.noop", {}),
)
NAP = sequence("nap", node("nap", "core.delay", {"durationMs": 1500}), node("after", "core.noop", {}))
WORKFLOWS = (GATED, NAP)


class ServerTestCase(unittest.TestCase):
    """A test case with a server and the workflows above. The server accepts webhooks to private addresses."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        arguments = ["serve", "--listen", "127.0.0.1:0", "--bootstrap-key", KEY, "--allow-private-webhooks"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDPOINT_", "OTEL_"))}
        cls.server = subprocess.Popen(
            [os.environ["HOLDPOINT_BIN"], *arguments, "--data", os.path.join(cls.folder.name, "data")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean,
        )
        cls.addClassCleanup(cls.stop)
        ready = cls.server.stdout.readline()
        cls.url = ready.split()[-1]
        # Later output must not fill the pipe.
        threading.Thread(target=cls.drain, args=[cls.server.stdout], daemon=True).start()
        for workflow in WORKFLOWS:
            cls.put(f"/v1/workflows/{workflow['id']}", workflow)

    @staticmethod
    def drain(stream):
        for _ in stream:
            pass

    @classmethod
    def stop(cls):
        cls.server.kill()
        cls.server.wait()
        cls.server.stdout.close()

    @classmethod
    def put(cls, path, body):
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        request = urllib.request.Request(
            cls.url + path, data=json.dumps(body).encode(), headers=headers, method="PUT"
        )
        with urllib.request.urlopen(request) as response:
            return response.status

    def wait_for(self, client, run, kind):
        """Polls the log of a run until it has an event of this type, and returns the types up to there."""
        seen = []
        while kind not in seen:
            page = client.runs_poll_events(run, last_sequence=len(seen) - 1, timeout_seconds=30)
            self.assertTrue(page.events, f"no events after {seen}")
            seen.extend(event.type for event in page.events)
        return seen


class Receiver:
    """Receives deliveries with their headers and bodies."""

    def __init__(self):
        self.deliveries = queue.Queue()
        deliveries = self.deliveries

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(204)
                self.end_headers()
                deliveries.put((dict(self.headers), body))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def next_delivery(self):
        return self.deliveries.get(timeout=30)

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
