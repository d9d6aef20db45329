//! A page for one thread. It stores only the connection and the id of the thread: after a reload the server returns the
//! messages, the state and the open interrupts.

import { HttpAgent } from "@ag-ui/client";
import { element, showInterrupts } from "./forms.js";

const find = (selector) => document.querySelector(selector);
const connection = find("#connection");
const fields = connection.elements;
const storage = sessionStorage;
let agent;

for (const name of ["server", "key"]) fields[name].value = storage.getItem(name) ?? fields[name].value;

connection.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(connect);
});
fields.agent.addEventListener("change", () => attempt(() => open(fields.agent.value, crypto.randomUUID())));
find("#fresh").addEventListener("click", () => attempt(() => open(fields.agent.value, crypto.randomUUID())));
find("#say").addEventListener("submit", (event) => {
    event.preventDefault();
    const { text } = event.target.elements;
    const content = text.value;
    text.value = "";
    attempt(() => {
        agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
        return run({});
    });
});
if (storage.getItem("thread")) attempt(connect);

async function connect() {
    for (const name of ["server", "key"]) storage.setItem(name, fields[name].value);
    const { agents } = await get("/v1/agents");
    const ids = [...agents.map(({ agentId }) => agentId), "sample-approval"];
    fields.agent.replaceChildren(...ids.map((id) => element("option", {}, id)));
    const last = storage.getItem("agent");
    fields.agent.value = ids.includes(last) ? last : ids[0];
    await open(fields.agent.value, storage.getItem("thread") ?? crypto.randomUUID());
}

/** Opens a thread with the data of the server. A thread that the server does not have is new. */
async function open(agentId, threadId) {
    storage.setItem("agent", agentId);
    storage.setItem("thread", threadId);
    const thread = await get(`/ag-ui/${encodeURIComponent(agentId)}/threads/${encodeURIComponent(threadId)}`, 404);
    agent = new HttpAgent({
        url: `${fields.server.value}/ag-ui/${encodeURIComponent(agentId)}`,
        headers: headers(),
        threadId,
        initialMessages: thread?.messages ?? [],
        initialState: thread?.state ?? {},
    });
    find("#thread").textContent = threadId;
    find("#events").textContent = "";
    show(thread?.interrupts ?? []);
    if (thread?.running) await run({});
}

async function run(parameters) {
    find("#interrupts").replaceChildren();
    notice("…");
    let failed;
    await agent.runAgent(parameters, {
        onEvent: ({ event }) => log(event.type),
        onMessagesChanged: ({ messages }) => showMessages(messages),
        onStateChanged: ({ state }) => showState(state),
        onRunErrorEvent: ({ event }) => void (failed = event),
    });
    // After an error, open interrupts stay open.
    show(agent.pendingInterrupts ?? []);
    if (failed) {
        notice(`${failed.code ?? "error"}: ${failed.message}`, true);
        const thread = await get(`/ag-ui/${encodeURIComponent(storage.getItem("agent"))}/threads/${encodeURIComponent(agent.threadId)}`, 404);
        show(thread?.interrupts ?? []);
    }
}

function show(interrupts) {
    showMessages(agent.messages);
    showState(agent.state);
    showInterrupts(find("#interrupts"), interrupts, (resume) => attempt(() => run({ resume })));
    find("#say button").disabled = interrupts.length > 0;
    notice(interrupts.length > 0 ? "The run waits for your answer. You can close this page and answer later." : "");
}

function showMessages(messages) {
    find("#messages").replaceChildren(...messages.map((message) => {
        const { role, content, toolCalls = [] } = message;
        const calls = toolCalls.map(({ function: call }) => element("div", { className: "call" }, `→ ${call.name}(${call.arguments})`));
        return element("li", { className: role }, ...parts(message), ...calls);
    }));
}

/** Returns the content of a message as elements and texts. */
function parts({ role, content, activityType }) {
    if (role === "activity") {
        const { progress, total, message } = content;
        const bar = typeof total === "number" ? [element("progress", { value: progress, max: total })] : [];
        return [...bar, ` ${message ?? activityType}`];
    }
    if (role === "reasoning") return [content || "(reasoning that only the model can read)"];
    if (Array.isArray(content)) return content.map(part);
    const text = typeof content === "string" ? content : JSON.stringify(content ?? "");
    return [role === "tool" ? `← ${text}` : text];
}

/** Returns a content part. Only images with data are loaded: an address would tell its server who reads the thread. */
function part({ type, text, source }) {
    if (type === "text") return element("div", {}, text);
    const isImage = type === "image" && source?.type === "data" && /^image\/(png|jpeg|gif|webp)$/.test(source.mimeType);
    if (isImage) return element("img", { src: `data:${source.mimeType};base64,${source.value}`, alt: "an image of the agent" });
    return element("div", {}, `[${source?.mimeType ?? type}]`);
}

function showState(state) {
    find("#state").textContent = JSON.stringify(state, null, 2);
}

function log(type) {
    const place = find("#events");
    place.textContent += `${type}\n`;
    place.scrollTop = place.scrollHeight;
}

function headers() {
    return { Authorization: `Bearer ${fields.key.value}` };
}

/** Returns the JSON of a response, or undefined for the expected status. */
async function get(path, expected) {
    const response = await fetch(fields.server.value + path, { headers: headers() });
    if (response.status === expected) return undefined;
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    return response.json();
}

function notice(text, bad = false) {
    Object.assign(find("#notice"), { textContent: text, className: bad ? "bad" : "" });
}

async function attempt(act) {
    try {
        await act();
    } catch (error) {
        notice(String(error.message ?? error), true);
    }
}
