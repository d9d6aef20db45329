//! Workflows with one interrupt each.

const plain = { version: "1", edges: [], variables: [], triggers: [], settings: {}, metadata: {} };

function only(id, node) {
    return { ...plain, id, name: id, nodes: [{ id: "ask", name: "Ask", config: {}, inputs: {}, ...node }] };
}

/** Returns a workflow with an approval. */
export function gate(id, config = {}, artifact = "A text.", artifactType = "text") {
    return only(id, {
        typeId: "core.approvalGate", artifactType, config: { title: `Is ${id} good?`, ...config }, inputs: { artifact: { type: "static", value: artifact } },
    });
}

/** Returns a workflow with a governed approval. */
export function governed(id, config) {
    return only(id, {
        typeId: "core.openwop.governance.approvalGate", config: { title: `May ${id} go on?`, ...config }, inputs: { artifact: { type: "static", value: "A text." } },
    });
}

/** Returns a workflow with an approval that is opened again with another text after a change request. */
export function refined(id) {
    const text = { type: "variable", variableName: "text" };
    return {
        ...plain, id, name: id,
        variables: [{ name: "text", type: "string", defaultValue: "First version.\nSecond line." }],
        nodes: [
            { id: "start", typeId: "core.start", name: "Start", config: {}, inputs: {} },
            {
                id: "ask", typeId: "core.approvalGate", name: "Good?", artifactType: "text",
                config: { title: `Is ${id} good?`, actions: ["accept", "reject", "refine", "edit-accept"] }, inputs: { artifact: text },
            },
            { id: "better", typeId: "core.setVariable", name: "Better", config: { name: "text", value: "Better version.\nSecond line." }, inputs: {} },
        ],
        edges: [
            { id: "in", sourceNodeId: "start", targetNodeId: "ask" },
            { id: "again", sourceNodeId: "ask", targetNodeId: "better", condition: { type: "equals", left: "output.action", right: "refine" } },
            { id: "back", sourceNodeId: "better", targetNodeId: "ask" },
        ],
    };
}

export function questions(id, list) {
    return only(id, { typeId: "core.clarificationGate", config: { questions: list } });
}

export function interruptNode(id, config) {
    return only(id, { typeId: "core.interrupt", config });
}

export function talk(id, turnCount = 2) {
    return only(id, { typeId: "core.conversationGate", config: { lifecycle: "open-exchange-close", turnCount, prompt: "Which colour?" } });
}

export function unsure(id) {
    return only(id, { typeId: "core.conformance.mock-agent", config: { agentId: "planner", mockDecision: { decision: "go", confidence: 0.4 } } });
}
