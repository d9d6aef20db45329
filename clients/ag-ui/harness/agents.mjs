//! Agents of the tests' own, with scripts for what the demo agents do not show: tools of the client, and slowness.

/** Calls a tool that only the client has, and says what came of it. */
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

/** Speaks piece by piece, with a wait before each of them. */
export const slow = {
    agentId: "slow",
    model: { provider: "scripted", steps: [{ pieces: ["one ", "two ", "three ", "four ", "five ", "six"], delayMs: 250 }] },
};

/** Asks, and then takes a while to do it. */
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
