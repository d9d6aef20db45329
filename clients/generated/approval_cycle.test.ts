// One approval cycle and one hold through the generated TypeScript client. The client validates every response.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  createHold,
  createRun,
  getHold,
  getRun,
  listPending,
  pollEvents,
  putWorkflow,
  resolveInterrupt,
  type PendingInterrupt,
  type RunSnapshot,
  type WorkflowDefinition,
} from "./holdpoint_client/index.js";
import { client } from "./holdpoint_client/client.gen.js";

client.setConfig({
  baseUrl: setting("GENERATED_CLIENTS_URL"),
  auth: setting("GENERATED_CLIENTS_KEY"),
  throwOnError: false,
});

const workflow: WorkflowDefinition = {
  id: "gated-typescript",
  name: "Gated",
  version: "1",
  nodes: [
    { id: "gate", typeId: "core.approvalGate", name: "gate", position: { x: 0, y: 0 }, inputs: {},
      config: { title: "Publish?", actions: ["accept", "reject"] } },
    { id: "after", typeId: "core.noop", name: "after", position: { x: 0, y: 0 }, inputs: {}, config: {} },
  ],
  edges: [{ id: "gate-after", sourceNodeId: "gate", targetNodeId: "after" }],
  triggers: [],
  variables: [],
  metadata: {},
  settings: {},
};

test("a run waits for an approval, completes after it and rejects a second answer", async () => {
  const registered = await putWorkflow({ path: { workflowId: workflow.id }, body: workflow });
  assert.equal(present(registered).id, workflow.id);

  const created = present(await createRun({ body: { workflowId: workflow.id } }));
  const waiting = await runWithStatus(created.runId, "waiting-approval");
  assert.equal(waiting.interrupt?.nodeId, "gate");
  assert.equal(waiting.nodeStates["after"]?.status, "pending");

  const pending = await onlyPending(created.runId);
  assert.deepEqual([pending.kind, pending.title, pending.workflowId], ["approval", "Publish?", workflow.id]);

  const answer = {
    path: { runId: pending.runId, nodeId: pending.nodeId },
    body: { resumeValue: { action: "accept" }, interruptId: pending.interruptId, digest: pending.digest },
  };
  const resolved = present(await resolveInterrupt(answer));
  assert.deepEqual([resolved.outcome, resolved.interruptId], ["resolved", pending.interruptId]);

  const completed = await runWithStatus(created.runId, "completed");
  assert.equal(completed.interrupt, undefined);
  assert.equal(completed.nodeStates["after"]?.status, "completed");
  assert.deepEqual(await pendingOf(created.runId), []);

  const { events } = present(await pollEvents({ path: { runId: created.runId }, query: { timeout: 1 } }));
  const order = ["run.started", "interrupt.requested", "interrupt.resolved", "run.completed"];
  assert.deepEqual(events.map((event) => event.type).filter((type) => order.includes(type)), order);

  const second = await resolveInterrupt(answer);
  assert.equal(second.response?.status, 409);
  assert.equal(second.data, undefined);
  assert.equal(second.error?.error, "interrupt_already_resolved");
  assert.ok(second.error.message);
});

test("a hold has its outcome after the answer", async () => {
  const hold = present(await createHold({ body: { title: "Deploy?", requesterMayNotApprove: false } }));
  assert.deepEqual([hold.status, hold.answer], ["waiting", undefined]);

  const pending = await onlyPending(hold.holdId);
  const resolved = present(await resolveInterrupt({
    path: { runId: pending.runId, nodeId: pending.nodeId },
    body: { resumeValue: { action: "accept" } },
  }));
  assert.equal(resolved.outcome, "resolved");

  const answered = present(await getHold({ path: { holdId: hold.holdId }, query: { wait: 30 } }));
  assert.equal(answered.status, "approved");
  assert.ok(answered.answeredAt);
  assert.equal(answered.grantId, resolved.grantId);
});

async function pendingOf(runId: string): Promise<PendingInterrupt[]> {
  const { interrupts } = present(await listPending());
  return interrupts.filter((interrupt) => interrupt.runId === runId);
}

async function onlyPending(runId: string): Promise<PendingInterrupt> {
  const [first, ...others] = await pendingOf(runId);
  assert.ok(first, `run ${runId} has no pending interrupt`);
  assert.deepEqual(others, []);
  return first;
}

/** Follows the events of a run until its snapshot has the status. */
async function runWithStatus(runId: string, status: RunSnapshot["status"]): Promise<RunSnapshot> {
  let lastSequence = -1;
  for (;;) {
    const run = present(await getRun({ path: { runId } }));
    if (run.status === status) {
      return run;
    }
    const page = present(await pollEvents({ path: { runId }, query: { lastSequence, timeout: 30 } }));
    const last = page.events.at(-1);
    assert.ok(last, `run ${runId} is ${run.status} and has no new event, instead of ${status}`);
    lastSequence = last.sequence;
  }
}

function present<Data>(result: { data?: Data; error?: unknown }): Data {
  assert.equal(result.error, undefined);
  assert.ok(result.data !== undefined, "the response has no body");
  return result.data;
}

function setting(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set`);
  return value;
}
