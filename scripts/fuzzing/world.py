"""Creates workflows, runs in every stable status, threads, links, holds and webhooks on a new server, and writes their
ids for the fuzzer: requests with generated ids would all return status 404."""

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
    # The fuzzer cancels, forks and answers some of the runs in each second, so a longer test needs more runs.
    for _ in range(10 + seconds // 10):
        runs += [start_run(workflow["id"]) for workflow in WORKFLOWS]
        runs.append(start_run("sample-approval"))
        for action in ["pause", "cancel"]:
            stopped = start_run("fuzz-waits")
            wait_until_settled(stopped)
            call("POST", f"/v1/runs/{stopped}{'/cancel' if action == 'cancel' else ':' + action}", {})
            runs.append(stopped)
    states = {}
    for run in runs:
        states.setdefault(wait_until_settled(run), []).append(run)
    missing = REQUIRED_STATUSES - set(states)
    if missing:
        sys.exit(f"no run has these statuses, so the fuzzer cannot test them: {missing}; the runs are {states}")
    children = [child["runId"] for run in runs for child in call("GET", f"/v1/runs/{run}").get("childRuns", [])]
    threads = start_threads(20 + seconds // 5)
    open_threads = [[one, call("GET", f"/v1/threads/{one}/runs/latest")["runId"]] for one in threads]
    for _, run in open_threads:
        wait_until_settled(run)
    dispatches = []
    for thread in [*runs, *threads]:
        rows = call("GET", f"/v1/threads/{thread}/dispatches")["dispatches"]
        dispatches += [row["dispatchId"] for row in rows]
    # No dictionary contains the first threads, so that only operations that read use them.
    read_only, open_threads = open_threads[:5], open_threads[5:]
    write_dictionary(folder, "runs", runs + children + [run for _, run in open_threads])
    write_dictionary(folder, "threads", threads[5:] * 3 + runs)
    deliveries = create_deliveries()
    write_dictionary(folder, "agents", ["fuzz-agent"])
    write_dictionary(folder, "dispatches", dispatches)
    write_dictionary(folder, "artifacts", [f"{run}:{node}" for run in runs for node in ("made", "review")])
    write_dictionary(folder, "workflows", [workflow["id"] for workflow in WORKFLOWS] + ["sample-approval"])
    write_dictionary(folder, "nodes", ["waits", "asks", "made", "calls", "review", "sleeps"])
    # Side questions, more of them for a longer test.
    asked = [run for run in runs if wait_until_settled(run) == "waiting-approval" and "waits" in nodes_of(run)][::3]
    asks = [[run, "waits", ask_side_question(run)] for run in asked]
    (own,) = [key["keyId"] for key in call("GET", "/v1/keys")["keys"] if key["principal"] == "bootstrap"]
    excluded = {run for _, run in read_only}
    pending = [one for one in call("GET", "/v1/interrupts?limit=200")["interrupts"] if one["runId"] not in excluded]
    links = [
        [call("POST", f"/v1/runs/{one['runId']}/interrupts/{one['nodeId']}/tokens", {})["token"], ANSWERS[one["kind"]]]
        for one in pending
    ]
    write_dictionary(folder, "tokens", [token for token, _ in links])
    open_interrupts = [
        [one["runId"], one["nodeId"], ANSWERS[one["kind"]]]
        for one in pending
    ]
    # Created last, so that the list of open interrupts above does not contain their interrupts.
    holds = [call("POST", "/v1/holds", {"title": "Go on?"})["holdId"] for _ in range(20 + seconds // 5)]
    sessions = [call("POST", "/v1/session", {"key": KEY})["sessionId"] for _ in range(20 + seconds // 5)]
    chats = [f"fuzz-chat-{number}" for number in range(10 + seconds // 10)]
    for key in chats:
        call("POST", "/api/v1/ai/chat", {"graph": "native:fuzz-waits", "stateKey": key, "input": {}})
    write_dictionary(folder, "chats", chats)
    world = {
        "preparedRequests": prepare_requests(20), "holds": holds, "sessions": sessions, "sideQuestions": asks,
        "links": links, "ownKey": own, "runs": runs + children, "runsByStatus": states, "agent": AGENT,
        "openInterrupts": open_interrupts, "deliveries": deliveries, "chats": chats, "openThreads": open_threads,
        "readOnlyThreads": read_only, "workflows": WORKFLOWS,
    }
    (folder / "world.json").write_text(json.dumps(world))
    print(f"{len(runs) + len(children)} runs, {len(dispatches)} dispatches: {', '.join(sorted(states))}")


def prepare_requests(count):
    """Returns requests that succeed (once) for operations that consume their object or need values that cannot be
    generated. No dictionary contains these objects, so that no other operation changes them."""
    pools = {operation: [make() for _ in range(count)] for operation, make in PREPARED_REQUESTS.items()}
    hooks = [create_webhook("holdpoint.ask.answered") for _ in range(5)]
    for operation, body in WEBHOOK_REQUESTS.items():
        pools[operation] = [describe_request(body, webhookId=hook) for hook in hooks]
    triggers = [create_trigger() for _ in range(5)]
    for operation, body in TRIGGER_REQUESTS.items():
        pools[operation] = [describe_request(body, triggerId=trigger) for trigger in triggers]
    return pools


def describe_request(body=None, **path):
    return {"path": path, "body": body}


def start_waiting_run():
    run = start_run("fuzz-waits")
    wait_until_settled(run)
    return run


def start_paused_run():
    run = start_waiting_run()
    call("POST", f"/v1/runs/{run}:pause", {})
    return run


def create_link(run):
    return call("POST", f"/v1/runs/{run}/interrupts/waits/tokens", {})["token"]


def start_agent_run():
    """Starts a run of the agent, alone in its thread, and waits until its tool call needs a decision."""
    started = call("POST", f"/v1/agents/{AGENT['agentId']}/runs", {"message": "Hello"})
    wait_until_settled(started["runId"])
    return started


def prepare_side_question():
    run = start_waiting_run()
    return describe_request(runId=run, nodeId="waits", askId=str(ask_side_question(run)))


def prepare_artifact():
    run = start_waiting_run()
    return describe_request(runId=run, artifactId=f"{run}:made")


def create_trigger():
    """Returns a trigger that does not fire during the test."""
    schedule = {"cron": "0 0 29 2 *"}
    body = {"source": "schedule", "workflowId": "fuzz-waits", "schedule": schedule}
    return call("POST", "/v1/trigger-subscriptions", body)["subscriptionId"]


def prepare_dead_letter():
    """Returns a delivery of an event without the part that the input mapping of its trigger requires."""
    event = f"fuzz-lacks-{time.monotonic_ns()}"
    body = {"source": "event", "workflowId": "fuzz-waits", "event": {"eventType": event},
            "inputMapping": {"part": {"$from": "/payload/part"}}}
    trigger = call("POST", "/v1/trigger-subscriptions", body)["subscriptionId"]
    call("POST", "/v1/events", {"eventType": event, "eventId": event, "payload": {}})
    for _ in range(100):
        dead = call("GET", f"/v1/trigger-subscriptions/{trigger}/deliveries?state=dead-lettered")["deliveries"]
        if dead:
            return describe_request(triggerId=trigger, deliveryId=dead[0]["deliveryId"])
        time.sleep(0.1)
    sys.exit("no delivery became a dead letter, so the fuzzer cannot test requeueTriggerDelivery")


def create_deliveries():
    """Returns the deliveries of a webhook on whose address no server listens."""
    hook = create_webhook("run.started")
    start_run("fuzz-waits")
    for _ in range(100):
        deliveries = call("GET", f"/v1/webhooks/{hook}/deliveries")["deliveries"]
        if deliveries:
            return [[hook, one["deliveryId"]] for one in deliveries]
        time.sleep(0.1)
    sys.exit("no delivery of run.started was created, so the fuzzer cannot test deliveries")


def create_webhook(event):
    return call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/", "events": [event], "durable": False})["webhookId"]


def start_threads(count):
    """Starts threads, each with one message to the agent."""
    call("PUT", f"/v1/agents/{AGENT['agentId']}", AGENT)
    threads = [f"fuzz-thread-{number}" for number in range(count)]
    for thread in threads:
        call("POST", f"/v1/agents/{AGENT['agentId']}/runs", {"threadId": thread, "message": "Hello"})
    return threads


def nodes_of(run):
    return call("GET", f"/v1/runs/{run}")["nodeStates"]


def ask_side_question(run):
    question = {"action": "ask", "question": "Why?"}
    return call("POST", f"/v1/runs/{run}/interrupts/waits", {"resumeValue": question})["askId"]


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, data, headers, method=method)
    try:
        # Requests to this machine must not use a proxy.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def start_run(workflow):
    return call("POST", "/v1/runs", {"workflowId": workflow, "inputs": {}, "tags": ["fuzz"]})["runId"]


def wait_until_settled(run):
    """Waits until the status of a run is stable (ended, waiting, paused, or asleep for hours), and returns it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        shown = call("GET", f"/v1/runs/{run}")
        asleep = any(node["status"] == "sleeping" for node in shown["nodeStates"].values())
        if asleep or shown["status"] not in ("pending", "running"):
            return shown["status"]
        time.sleep(0.02)
    sys.exit(f"the run {run} did not reach a stable status: {shown}")


def write_dictionary(folder, name, values):
    """Writes a dictionary for the fuzzer: one quoted value per line."""
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


def create_grant():
    """Approves a run and returns its grant."""
    return call("POST", f"/v1/runs/{start_waiting_run()}/interrupts/waits", {"resumeValue": ACCEPT})["grantId"]


def prepare_grant():
    grant = create_grant()
    return describe_request({"digest": call("GET", f"/v1/grants/{grant}")["digest"]}, grantId=grant)


def node(name, kind, extra=None, **config):
    return (name, kind, config, extra or {})


# Calls a tool that needs a decision. No server exists at the address of the tool.
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
ARTIFACT = node("made", "core.identity", {"artifactType": "text", "inputs": {"text": {"type": "static", "value": "Hello"}}})
APPROVAL = node("waits", "core.approvalGate", title="Go on?", actions=["accept", "reject", "edit-accept", "ask"])
WORKFLOWS = [
    workflow("fuzz-waits", ARTIFACT, APPROVAL, node("after", "core.noop")),
    workflow("fuzz-asks", node("asks", "core.clarificationGate", questions=[{"id": "q1", "question": "Which?"}])),
    workflow("fuzz-sleeps", ARTIFACT, node("sleeps", "core.delay", ms=36_000_000)),
    workflow("fuzz-ends", ARTIFACT, node("says", "core.channelWrite", channelName="said", reducer="append", value="Hello")),
    workflow("fuzz-fails", ARTIFACT, node("fails", "core.fail", code="out_of_paper", message="There is no paper.")),
    workflow("fuzz-calls", node("calls", "core.subWorkflow", workflowId="fuzz-waits", waitForCompletion=True)),
]
ANSWERS = {"approval": {"action": "accept"}, "clarification": {"answers": {"q1": "this one"}}}
ACCEPT, ALLOW = ANSWERS["approval"], {"toolCallId": "c1", "action": "resume"}
PREPARED_REQUESTS = {
    "resolveInterrupt": lambda: describe_request({"resumeValue": ACCEPT}, runId=start_waiting_run(), nodeId="waits"),
    "resolveApproval": lambda: describe_request(ACCEPT, runId=start_waiting_run(), nodeId="waits"),
    "resolveByToken": lambda: describe_request({"resumeValue": ACCEPT}, token=create_link(start_waiting_run())),
    "mintToken": lambda: describe_request({}, runId=start_waiting_run(), nodeId="waits"),
    "answerAsk": prepare_side_question,
    "deleteTrigger": lambda: describe_request(triggerId=create_trigger()),
    "requeueTriggerDelivery": prepare_dead_letter,
    "deleteWebhook": lambda: describe_request(webhookId=create_webhook("holdpoint.ask.answered")),
    "interruptThread": lambda: describe_request({}, threadId=start_agent_run()["threadId"]),
    "forkRun": lambda: describe_request({"mode": "branch", "fromSeq": 1}, runId=start_waiting_run()),
    "cancelRun": lambda: describe_request({}, runId=start_waiting_run()),
    "putWorkflow": lambda: describe_request({**WORKFLOWS[0], "id": "fuzz-kept"}, workflowId="fuzz-kept"),
    "getArtifact": prepare_artifact,
    "pauseRun": lambda: describe_request({}, runId=start_waiting_run()),
    "resumeRun": lambda: describe_request({}, runId=start_paused_run()),
    "tellRun": lambda: describe_request({"message": "Go on"}, runId=start_agent_run()["runId"]),
    "decideCall": lambda: describe_request(ALLOW, runId=start_agent_run()["runId"]),
    "decideInThread": lambda: describe_request(ALLOW, threadId=start_agent_run()["threadId"]),
    "cancelThread": lambda: describe_request({}, threadId=start_agent_run()["threadId"]),
    "revokeKey": lambda: describe_request(keyId=call("POST", "/v1/keys", {"principal": "for-a-while"})["keyId"]),
    "getGrant": lambda: describe_request(grantId=create_grant()),
    "consumeGrant": prepare_grant,
    "getWorkflowGrants": lambda: describe_request(workflowId="fuzz-waits"),
    "rotateKey": lambda: describe_request({}, keyId=call("POST", "/v1/keys", {"principal": "for-a-while"})["keyId"]),
}
ALL_TIME = {"from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z"}
WEBHOOK_REQUESTS = {
    "pauseWebhook": {}, "resumeWebhook": {}, "replayDeliveries": ALL_TIME, "getWebhook": None, "listDeadLetters": None,
    "listDeliveries": None, "listWebhookEvents": None,
}
TRIGGER_REQUESTS = {
    "pauseTrigger": {}, "resumeTrigger": {}, "getTrigger": None, "listTriggerDeliveries": None, "listTriggerEvents": None,
}
REQUIRED_STATUSES = {"waiting-approval", "waiting-input", "running", "paused", "completed", "failed", "cancelled"}

if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
