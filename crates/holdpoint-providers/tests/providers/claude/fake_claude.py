"""A fake of the agent's program. It implements the part of the protocol that the adapter uses, and misbehaves as its
script says.

    fake_claude.py SCRIPT FLAGS…

The script is a JSON file. `steps` are the actions of the model. The transcript determines the next step, so another
process continues where one was stopped. Each start and each call that is made is a line in a file in the folder of the
script.

A step is a list of calls `{"calls": [[name, input], …]}` or a text `{"text": …}`, in which `{results}` stands for the
results of the calls before it. Before its output a step can `sync` with the test (a port: the program sends a line and
waits for one), print `garbage`, or send another control request (`ask`). Instead of its output it can fail with an `api`
status, `exit`, `hang`, or write without end (`endless`: "line" or "lines"). With `once` the fault of a step happens only
the first time. A text can `sync_in_text` after its first half; @cwd@ and @session@ in it stand for the working folder
and the session. The members `sync_before_call`, `sync_in_call` and `sync_on_resume` of the script sync before calls,
during them, or when a session is resumed.
"""

import json
import os
import re
import signal
import socket
import sys
import time
import uuid

HOME = os.path.dirname(sys.argv[1])
SCRIPT = json.load(open(sys.argv[1]))
FLAGS = sys.argv[2:]


def record(file, value):
    with open(os.path.join(HOME, file), "a") as lines:
        lines.write(json.dumps(value) + "\n")


def first_time(name):
    try:
        os.close(os.open(os.path.join(HOME, "once-" + name), os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def flag(name):
    return next((each.split("=", 1)[1] for each in FLAGS if each.startswith(name + "=")), None)


def write_line(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def read_line():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def sync(port):
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(f"here {os.getpid()}\n".encode())
        line.makefile().readline()


class Session:
    def __init__(self):
        self.name = flag("--resume") or flag("--session-id")
        folder = re.sub("[^a-zA-Z0-9]", "-", os.getcwd())
        folder = os.path.join(os.environ["CLAUDE_CONFIG_DIR"], "projects", folder)
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, self.name + ".jsonl")
        self.lines = [json.loads(line) for line in open(self.path)] if os.path.exists(self.path) else []

    def write(self, line):
        self.lines.append(line)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def assistant_messages(self):
        return [line for line in self.lines if line["type"] == "assistant" and not line.get("isApiErrorMessage")]

    def results(self):
        blocks = [b for line in self.lines if line["type"] == "user" for b in line["message"]["content"]]
        return {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}

    def waiting(self):
        marks = [line["attachment"] for line in self.lines if line["type"] == "attachment"]
        answered = self.results()
        return next((mark for mark in reversed(marks) if mark["toolUseID"] not in answered), None)

    def result(self, call, text):
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        line = {"type": "user", "message": {"role": "user", "content": [block]}}
        self.write(line)
        write_line({**line, "parent_tool_use_id": None, "session_id": self.name})

    def end(self, **more):
        write_line({"type": "result", "subtype": "success", "is_error": False, "session_id": self.name,
             "total_cost_usd": 0.25, "usage": {"input_tokens": 10, "output_tokens": 5}, **more})
        while read_line() is not None:
            pass
        sys.exit(1 if more.get("is_error") else 0)


def request(subtype, **more):
    name = uuid.uuid4().hex
    write_line({"type": "control_request", "request_id": name, "request": {"subtype": subtype, **more}})
    while True:
        message = read_line()
        if message is None:
            sys.exit(1)
        if message["type"] == "control_response" and message["response"]["request_id"] == name:
            return message["response"]


def ask_hook(call, name, given):
    about = {"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": given, "tool_use_id": call}
    answer = request("hook_callback", callback_id="gate", input=about)
    record("hooks.jsonl", [name, answer["response"]])
    return answer["response"].get("hookSpecificOutput", {})


def make_call(session, call, name, given, permission):
    """Makes a call if it is permitted. Returns False if it is deferred."""
    decision = permission.get("permissionDecision")
    if decision == "defer":
        return False
    if decision == "deny":
        session.result(call, "denied: " + permission["permissionDecisionReason"])
        return True
    if decision != "allow":
        answer = request("can_use_tool", tool_name=name, input=given)["response"]
        if answer["behavior"] != "allow":
            session.result(call, "not permitted: " + answer["message"])
            return True
    given = permission.get("updatedInput", given)
    if "sync_before_call" in SCRIPT:
        sync(SCRIPT["sync_before_call"])
    record("calls.jsonl", [name, given])
    if "sync_in_call" in SCRIPT and first_time("sync"):
        sync(SCRIPT["sync_in_call"])
    session.result(call, "made " + json.dumps(given, sort_keys=True))
    return True


def misbehave(session, step):
    if "sync" in step:
        sync(step["sync"])
    if "garbage" in step:
        print("not JSON")
        print('{"type": 7}', flush=True)
    if "ask" in step:
        record("control_responses.jsonl", request(step["ask"]))
    if "api" in step:
        session.write({"type": "assistant", "isApiErrorMessage": True,
                       "message": {"stop_reason": "stop_sequence", "content": [{"type": "text", "text": "API Error"}]}})
        status = {"api_error_status": step["api"]} if step["api"] else {}
        session.end(is_error=True, terminal_reason="api_error", stop_reason="stop_sequence",
                    result="API Error: req_011CVabcdefgh of " + session.name, **status)
    if "exit" in step:
        sys.stderr.write(f"broken at {session.path} in {session.name}\n")
        sys.stderr.flush()
        os._exit(step["exit"])
    if "endless" in step:
        while True:
            sys.stdout.write("x" * 65536 + ("\n" if step["endless"] == "lines" else ""))
    while "hang" in step:
        # The program does not read control requests either.
        time.sleep(3600)


def stream_message(session, step, message):
    """Prints a message like the program with partial messages: its events, and a line for each block."""
    def event(kind, **more):
        write_line({"type": "stream_event", "event": {"type": kind, **more}, "parent_tool_use_id": None,
                    "session_id": session.name})

    begun = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    event("message_start", message=begun)
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            half = len(block["text"]) // 2
            event("content_block_delta", index=index, delta={"type": "text_delta", "text": block["text"][:half]})
            if "sync_in_text" in step and first_time("text"):
                sync(step["sync_in_text"])
            event("content_block_delta", index=index, delta={"type": "text_delta", "text": block["text"][half:]})
        elif block["type"] == "thinking":
            event("content_block_start", index=index, content_block={"type": "thinking", "thinking": ""})
            event("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": block["thinking"]})
        else:
            event("content_block_start", index=index, content_block={**block, "input": {}})
            event("content_block_delta", index=index,
                  delta={"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
        write_line({"type": "assistant", "message": {**message, "content": [block]}, "parent_tool_use_id": None,
                    "session_id": session.name})
        event("content_block_stop", index=index)
    event("message_delta", delta={"stop_reason": message["stop_reason"]}, usage={"output_tokens": 5})
    event("message_stop")


def execute_steps(session):
    steps = SCRIPT["steps"]
    while True:
        step = steps[min(len(session.assistant_messages()), len(steps) - 1)]
        if "once" not in step or first_time(step["once"]):
            misbehave(session, step)
        text = step.get("text", "I will.").replace("{results}", " | ".join(session.results().values()))
        given = json.loads(json.dumps(step.get("calls", [])).replace("@cwd@", os.getcwd()))
        calls = [["toolu_" + uuid.uuid4().hex[:24], *call] for call in given]
        text = text.replace("@cwd@", os.getcwd()).replace("@session@", session.name)
        blocks = [{"type": "thinking", "thinking": step["thinking"]}] if "thinking" in step else []
        blocks += [{"type": "text", "text": text}]
        blocks += [{"type": "tool_use", "id": call, "name": name, "input": given} for call, name, given in calls]
        stop = "tool_use" if calls else "end_turn"
        message = {"id": "msg_" + uuid.uuid4().hex, "type": "message", "role": "assistant", "model": "fake",
                   "stop_reason": stop, "content": blocks}
        if "--include-partial-messages" in FLAGS:
            stream_message(session, step, message)
        session.write({"type": "assistant", "message": message})
        if not calls:
            session.end(stop_reason=stop, result=text)
        deferred = None
        for call, name, given in calls:
            if not make_call(session, call, name, given, ask_hook(call, name, given)):
                deferred = {"id": call, "name": name, "input": given}
                session.write({"type": "attachment", "attachment": {
                    "type": "hook_deferred_tool", "toolUseID": call, "toolName": name, "toolInput": given}})
        if deferred:
            session.end(stop_reason="tool_deferred", terminal_reason="tool_deferred", deferred_tool_use=deferred)


def main():
    if FLAGS == ["--version"]:
        print(SCRIPT.get("version", "2.1.325") + " (Claude Code)")
        return
    if SCRIPT.get("ignore_sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record("starts.jsonl", {"pid": os.getpid(), "flags": FLAGS, "environment": dict(os.environ), "cwd": os.getcwd()})
    session = Session()
    initialize = read_line()
    good = "reject_hook" not in SCRIPT
    write_line({"type": "control_response", "response": {"subtype": "success" if good else "error",
                                                  "request_id": initialize["request_id"]}})
    if flag("--session-id") and session.lines:
        sys.stderr.write(f"Error: Session ID {session.name} is already in use.\n")
        sys.exit(1)
    waiting = session.waiting()
    if "sync_on_resume" in SCRIPT and flag("--resume"):
        sync(SCRIPT["sync_on_resume"])
    if flag("--resume") and waiting and not SCRIPT.get("ignore_resume"):
        call, name, given = waiting["toolUseID"], waiting["toolName"], waiting["toolInput"]
        if SCRIPT.get("unavailable") and first_time("unavailable"):
            session.end(is_error=True, stop_reason="tool_deferred_unavailable",
                        deferred_tool_use={"id": call, "name": name, "input": given})
        if not make_call(session, call, name, given, ask_hook(call, name, given)):
            session.end(stop_reason="tool_deferred", deferred_tool_use={"id": call, "name": name, "input": given})
    else:
        prompt = read_line()
        if prompt is None:
            sys.exit(0)
        session.write({"type": "user", "message": {"role": "user", "content": prompt["message"]["content"]}})
    write_line({"type": "system", "subtype": "init", "session_id": session.name})
    execute_steps(session)


main()
