//! Agents of the tests, for cases that the demo agents do not cover: client tools and slow replies.

/** Calls a tool that only the client has, and replies with its result. */
export const picker = {
    agentId: "picker",
    model: {
        provider: "scripted",
        steps: [
            { text: "Let me ask your page.", calls: [{ name: "pickColor", arguments: { of: "three" } }] },
            { text: "You picked {{lastResult}}" },
        ],
    },
    permissions: { default: "allow" },
};

export const pickColor = {
    name: "pickColor",
    description: "Lets the user pick a color in the page.",
    parameters: { type: "object", properties: { of: { type: "string" } } },
};

/** Replies in pieces, with a delay before each piece. */
export const slow = {
    agentId: "slow",
    model: { provider: "scripted", steps: [{ pieces: ["one ", "two ", "three ", "four ", "five ", "six"], delayMs: 250 }] },
};

/** Returns an agent that asks before a slow tool call. */
export const slowTool = ({ agentId, idempotent, delayMs = 1500 }) => ({
    agentId,
    model: {
        provider: "scripted",
        steps: [
            { text: "I will send this mail.", calls: [{ name: "sendEmail", arguments: { to: "old@example.test" } }] },
            { text: "Sent: {{lastResult}}" },
        ],
    },
    tools: [{
        type: "scripted", name: "sendEmail", idempotent, delayMs, counts: "executions",
        result: { status: "sent", arguments: "{{arguments}}", token: "{{unique}}" },
    }],
    permissions: { rules: [{ tool: "sendEmail", behavior: "ask" }] },
});
