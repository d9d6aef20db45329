//! CopilotKit's runtime in front of agents of Holdpoint: the page calls the runtime, and the keys stay here.

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { AgentRunner, CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

/** Runs agents and joins threads of Holdpoint. It has no state, so a restart loses no data. */
class HoldpointRunner extends AgentRunner {
    constructor(url) {
        super();
        this.url = url;
    }

    run({ agent, input }) {
        return agent.run(input);
    }

    connect({ agentId, threadId, headers }) {
        const url = `${this.url}/${agentId}/threads/${encodeURIComponent(threadId)}/stream`;
        return transformHttpEventStream(runHttpRequest(() => fetch(url, { headers })));
    }

    async isRunning() {
        return false;
    }

    async stop() {
        return false;
    }
}

/**
 * Returns a request listener for these agents. `keyOf(request)` returns the key of the user who sent the request, if
 * there is one.
 */
export function createRuntime({ url, agents, keyOf, basePath, runner = new HoldpointRunner(url) }) {
    const agent = (name, key) => new HttpAgent({ url: `${url}/${name}`, headers: { Authorization: `Bearer ${key}` } });
    const runtime = new CopilotRuntime({
        agents: ({ request }) => Object.fromEntries(agents.map((name) => [name, agent(name, keyOf(request))])),
        runner,
    });
    const onRequest = ({ request }) => {
        if (!keyOf(request)) throw new Response("sign in first", { status: 401 });
    };
    return createCopilotNodeListener({ runtime, basePath, hooks: { onRequest } });
}
