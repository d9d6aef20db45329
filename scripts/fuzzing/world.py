"""Fills a fresh server with workflows, and runs in every state that stays as it is until somebody acts, and writes their
ids beside the configuration of the fuzzer: requests with made-up ids would all end at the same 404."""

import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request

URL = os.environ["FUZZ_URL"]
KEY = os.environ["FUZZ_KEY"]


def main(folder, seconds):
    for workflow in WORKFLOWS:
        call("PUT", f"/v1/workflows/{workflow['id']}", workflow)
    runs = []
    # Some of them are cancelled, forked and answered with every second that the fuzzer has.
    for _ in range(10 + seconds // 10):
        runs += [start(workflow["id"]) for workflow in WORKFLOWS]
        runs.append(start("sample-approval"))
        for verb in ["pause", "cancel"]:
            stopped = start("fuzz-waits")
            settled(stopped)
            call("POST", f"/v1/runs/{stopped}{'/cancel' if verb == 'cancel' else ':' + verb}", {})
            runs.append(stopped)
    states = {}
    for run in runs:
        states.setdefault(settled(run), []).append(run)
    missing = WANTED - set(states)
    if missing:
        sys.exit(f"no run is in one of these states, so the fuzzer would not see them: {missing}; there are {states}")
    children = [child["runId"] for run in runs for child in call("GET", f"/v1/runs/{run}").get("childRuns", [])]
    dispatches = []
    for run in runs:
        rows = call("GET", f"/v1/threads/{run}/dispatches")["dispatches"]
        dispatches += [row["dispatchId"] for row in rows]
    threads = talk(20 + seconds // 5)
    talks = [[one, call("GET", f"/v1/threads/{one}/runs/latest")["runId"]] for one in threads]
    for _, run in talks:
        settled(run)
    # In some of them nothing is changed, for those who only look: no change finds the way to them.
    looks, talks = talks[:5], talks[5:]
    write(folder, "runs", runs + children + [run for _, run in talks])
    write(folder, "threads", threads[5:] * 3 + runs)
    deliveries = tell()
    write(folder, "agents", ["fuzz-agent"])
    write(folder, "dispatches", dispatches)
    write(folder, "artifacts", [f"{run}:{node}" for run in runs for node in ("made", "review")])
    write(folder, "workflows", [workflow["id"] for workflow in WORKFLOWS] + ["sample-approval"])
    write(folder, "nodes", ["waits", "asks", "made", "calls", "review", "sleeps"])
    # Questions beside a decision, some of them for every second of fuzzing.
    doubted = [run for run in runs if settled(run) == "waiting-approval" and "waits" in nodes_of(run)][::3]
    asks = [[run, "waits", ask(run)] for run in doubted]
    (own,) = [key["keyId"] for key in call("GET", "/v1/keys")["keys"] if key["principal"] == "bootstrap"]
    left_alone = {run for _, run in looks}
    waiting = [one for one in call("GET", "/v1/interrupts?limit=200")["interrupts"] if one["runId"] not in left_alone]
    links = [
        [call("POST", f"/v1/runs/{one['runId']}/interrupts/{one['nodeId']}/tokens", {})["token"], ANSWERS[one["kind"]]]
        for one in waiting
    ]
    write(folder, "tokens", [token for token, _ in links])
    questions = [
        [one["runId"], one["nodeId"], ANSWERS[one["kind"]]]
        for one in waiting
    ]
    # Made last: what they ask is not among the questions above.
    holds = [call("POST", "/v1/holds", {"title": "Go on?"})["holdId"] for _ in range(20 + seconds // 5)]
    sessions = [call("POST", "/v1/session", {"key": KEY})["sessionId"] for _ in range(20 + seconds // 5)]
    chats = [f"fuzz-chat-{number}" for number in range(10 + seconds // 10)]
    for key in chats:
        call("POST", "/api/v1/ai/chat", {"graph": "native:fuzz-waits", "stateKey": key, "input": {}})
    write(folder, "chats", chats)
    world = {
        "kept": keep(20), "holds": holds, "sessions": sessions, "asks": asks, "links": links, "ownKey": own,
        "runs": runs + children, "states": states, "questions": questions, "agent": AGENT, "deliveries": deliveries,
        "chats": chats, "talks": talks, "looks": looks, "workflows": WORKFLOWS,
    }
    (folder / "world.json").write_text(json.dumps(world))
    print(f"{len(runs) + len(children)} runs, {len(dispatches)} dispatches: {', '.join(sorted(states))}")


def keep(count):
    """For operations that use up what they are about, or are hard to guess: requests that succeed (once). What they name
    is in no dictionary, so that nobody else's change finds the way to it."""
    pools = {operation: [make() for _ in range(count)] for operation, make in KEPT.items()}
    hooks = [subscribed("holdpoint.ask.answered") for _ in range(5)]
    pools |= {operation: [kept(body, webhookId=hook) for hook in hooks] for operation, body in OF_HOOKS.items()}
    return pools


def kept(body=None, **path):
    return {"path": path, "body": body}


def waiting():
    run = start("fuzz-waits")
    settled(run)
    return run


def paused():
    run = waiting()
    call("POST", f"/v1/runs/{run}:pause", {})
    return run


def linked(run):
    return call("POST", f"/v1/runs/{run}/interrupts/waits/tokens", {})["token"]


def talking():
    """A run of the agent, alone in its thread, whose call waits."""
    started = call("POST", f"/v1/agents/{AGENT['agentId']}/runs", {"message": "Hello"})
    settled(started["runId"])
    return started


def doubted():
    run = waiting()
    return kept(runId=run, nodeId="waits", askId=str(ask(run)))


def made():
    run = waiting()
    return kept(runId=run, artifactId=f"{run}:made")


def tell():
    """What a subscriber that nobody is was told of."""
    hook = subscribed("run.started")
    start("fuzz-waits")
    for _ in range(100):
        told = call("GET", f"/v1/webhooks/{hook}/deliveries")["deliveries"]
        if told:
            return [[hook, one["deliveryId"]] for one in told]
        time.sleep(0.1)
    sys.exit("nobody was told that a run has started, so the fuzzer would not see deliveries")


def subscribed(event):
    return call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/", "events": [event], "durable": False})["webhookId"]


def talk(count):
    """Threads in which somebody has said something to an agent."""
    call("PUT", f"/v1/agents/{AGENT['agentId']}", AGENT)
    threads = [f"fuzz-thread-{number}" for number in range(count)]
    for thread in threads:
        call("POST", f"/v1/agents/{AGENT['agentId']}/runs", {"threadId": thread, "message": "Hello"})
    return threads


def nodes_of(run):
    return call("GET", f"/v1/runs/{run}")["nodeStates"]


def ask(run):
    question = {"action": "ask", "question": "Why?"}
    return call("POST", f"/v1/runs/{run}/interrupts/waits", {"resumeValue": question})["askId"]


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, data, headers, method=method)
    try:
        # The server is on this machine; no proxy is asked.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def start(workflow):
    return call("POST", "/v1/runs", {"workflowId": workflow, "inputs": {}, "tags": ["fuzz"]})["runId"]


def settled(run):
    """The status in which the run stays: over, waiting, paused, or asleep for hours."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        shown = call("GET", f"/v1/runs/{run}")
        asleep = any(node["status"] == "sleeping" for node in shown["nodeStates"].values())
        if asleep or shown["status"] not in ("pending", "running"):
            return shown["status"]
        time.sleep(0.02)
    sys.exit(f"the run {run} does not settle: {shown}")


def write(folder, name, values):
    """A dictionary as the fuzzer reads it: one quoted value a line."""
    lines = [json.dumps(value) for value in values]
    (folder / f"{name}.dict").write_text("\n".join(lines) + "\n")


def workflow(name, *nodes, **more):
    shown = []
    for at, (node, kind, config, extra) in enumerate(nodes):
        shown.append({
            "id": node, "typeId": kind, "name": node, "position": {"x": 200 * at, "y": 0}, "config": config,
            "inputs": {}, **extra,
        })
    edges = [
        {"id": f"e{at}", "sourceNodeId": one[0], "targetNodeId": next_one[0]}
        for at, (one, next_one) in enumerate(zip(nodes, nodes[1:]))
    ]
    return {
        "id": name, "name": name, "version": "1.0.0", "nodes": shown, "edges": edges,
        "triggers": [{"id": "manual", "type": "manual", "enabled": True}], "variables": [], "metadata": {},
        "settings": {}, **more,
    }


def granted():
    """Returns the grant of a run that was just approved."""
    return call("POST", f"/v1/runs/{waiting()}/interrupts/waits", {"resumeValue": ACCEPT})["grantId"]


def consumable():
    grant = granted()
    return kept({"digest": call("GET", f"/v1/grants/{grant}")["digest"]}, grantId=grant)


def node(name, kind, extra=None, **config):
    return (name, kind, config, extra or {})


# It wants to call a tool, and waits until somebody lets it; nothing is where the call would go.
AGENT = {
    "agentId": "fuzz-agent", "name": "fuzz-agent", "instructions": "Be brief.",
    "model": {"provider": "scripted", "steps": [
        {"text": "May I?", "calls": [{"id": "c1", "name": "send", "arguments": {"to": "bob"}}]}, {"text": "Done."},
    ]},
    "tools": [{
        "type": "http", "name": "send", "description": "sends", "method": "POST", "url": "https://nowhere.invalid/",
        "parameters": {"type": "object"},
    }],
    "permissions": {"rules": [{"tool": "send", "behavior": "ask"}]},
}
MADE = node("made", "core.identity", {"artifactType": "text", "inputs": {"text": {"type": "static", "value": "Hello"}}})
WAITS = node("waits", "core.approvalGate", title="Go on?", actions=["accept", "reject", "edit-accept", "ask"])
WORKFLOWS = [
    workflow("fuzz-waits", MADE, WAITS, node("after", "core.noop")),
    workflow("fuzz-asks", node("asks", "core.clarificationGate", questions=[{"id": "q1", "question": "Which?"}])),
    workflow("fuzz-sleeps", MADE, node("sleeps", "core.delay", ms=36_000_000)),
    workflow("fuzz-ends", MADE, node("says", "core.channelWrite", channelName="said", reducer="append", value="Hello")),
    workflow("fuzz-fails", MADE, node("fails", "core.fail", code="out_of_paper", message="There is no paper.")),
    workflow("fuzz-calls", node("calls", "core.subWorkflow", workflowId="fuzz-waits", waitForCompletion=True)),
]
ANSWERS = {"approval": {"action": "accept"}, "clarification": {"answers": {"q1": "this one"}}}
ACCEPT, ALLOW = ANSWERS["approval"], {"toolCallId": "c1", "action": "resume"}
KEPT = {
    "resolveInterrupt": lambda: kept({"resumeValue": ACCEPT}, runId=waiting(), nodeId="waits"),
    "resolveApproval": lambda: kept(ACCEPT, runId=waiting(), nodeId="waits"),
    "resolveByToken": lambda: kept({"resumeValue": ACCEPT}, token=linked(waiting())),
    "mintToken": lambda: kept({}, runId=waiting(), nodeId="waits"),
    "answerAsk": doubted,
    "deleteWebhook": lambda: kept(webhookId=subscribed("holdpoint.ask.answered")),
    "interruptThread": lambda: kept({}, threadId=talking()["threadId"]),
    "forkRun": lambda: kept({"mode": "branch", "fromSeq": 1}, runId=waiting()),
    "cancelRun": lambda: kept({}, runId=waiting()),
    "putWorkflow": lambda: kept({**WORKFLOWS[0], "id": "fuzz-kept"}, workflowId="fuzz-kept"),
    "getArtifact": made,
    "pauseRun": lambda: kept({}, runId=waiting()),
    "resumeRun": lambda: kept({}, runId=paused()),
    "tellRun": lambda: kept({"message": "Go on"}, runId=talking()["runId"]),
    "decideCall": lambda: kept(ALLOW, runId=talking()["runId"]),
    "decideInThread": lambda: kept(ALLOW, threadId=talking()["threadId"]),
    "cancelThread": lambda: kept({}, threadId=talking()["threadId"]),
    "revokeKey": lambda: kept(keyId=call("POST", "/v1/keys", {"principal": "for-a-while"})["keyId"]),
    "getGrant": lambda: kept(grantId=granted()),
    "consumeGrant": consumable,
    "getWorkflowGrants": lambda: kept(workflowId="fuzz-waits"),
    "rotateKey": lambda: kept({}, keyId=call("POST", "/v1/keys", {"principal": "for-a-while"})["keyId"]),
}
EVER = {"from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z"}
OF_HOOKS = {
    "pauseWebhook": {}, "resumeWebhook": {}, "replayDeliveries": EVER, "getWebhook": None, "listDeadLetters": None,
    "listDeliveries": None, "listWebhookEvents": None,
}
WANTED = {"waiting-approval", "waiting-input", "running", "paused", "completed", "failed", "cancelled"}

if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
