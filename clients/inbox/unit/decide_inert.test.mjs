//! All fields of an interrupt, from its title to the answers of approvers, are shown as text.

import assert from "node:assert/strict";
import { test } from "node:test";
import { history } from "../../../crates/holdpoint/src/inbox/page/decide/history.js";
import { kindFor } from "../../../crates/holdpoint/src/inbox/page/decide/kinds.js";
import { fromRun, headline } from "../../../crates/holdpoint/src/inbox/page/decide/model.js";
import { outcome } from "../../../crates/holdpoint/src/inbox/page/decide/outcome.js";
import { interruptPage } from "../../../crates/holdpoint/src/inbox/page/decide/page.js";
import { people } from "../../../crates/holdpoint/src/inbox/page/decide/people.js";
import { assertInert } from "./descriptions.mjs";
import { PAYLOADS } from "./payloads.mjs";

const NOW = Date.parse("2026-01-01T12:00:00Z");
const tools = { id: "t", redraw: () => {}, change: () => {} };

function asked(kind, data, more = {}) {
    return fromRun(
        {
            interruptId: "r:i1",
            nodeId: "gate",
            kind,
            title: "T",
            data,
            status: "open",
            requestedAt: "2026-01-01T11:00:00Z",
            digest: "sha256:x",
            ...more,
        },
        "r",
    );
}

for (const payload of PAYLOADS) {
    test(`a payload stays text in every field of an interrupt: ${JSON.stringify(payload)}`, () => {
        const data = {
            title: payload,
            description: payload,
            message: payload,
            actions: ["accept", payload],
            artifactType: payload,
            artifactData: payload,
            customKind: payload,
            graph: payload,
            agentId: payload,
            eventType: payload,
            correlation: { [payload]: payload },
            prompt: payload,
            decision: payload,
            questions: [{ id: payload, question: payload }],
            trouble: { code: payload, message: payload },
            requiredRole: payload,
            override: { requiredRole: payload },
        };
        const more = {
            title: payload,
            digest: payload,
            assignees: [payload, `role:${payload}`],
            votes: [{ decidedBy: payload, action: payload, at: payload, actedBy: payload }],
            requiredApprovals: 2,
            asks: [{ askId: 1, question: payload, askedBy: payload, answer: payload, answeredBy: payload }],
        };
        const before = asked("approval", data, {
            ...more,
            interruptId: "0",
            status: "answered",
            decision: {
                by: payload,
                value: { action: payload, refineFeedback: { text: payload, tags: [payload] } },
                at: payload,
            },
        });
        for (const kind of [
            "approval",
            "clarification",
            "custom",
            "external-event",
            "conversation.exchange",
            "low-confidence",
            payload,
        ]) {
            const interrupt = asked(kind, data, more);
            const found = kindFor(interrupt);
            const content = found.content({ now: NOW, before, interrupts: [before, interrupt] });
            assertInert(
                interruptPage(
                    {
                        interrupt,
                        kind: found,
                        content,
                        run: { workflowId: payload, owner: { principal: payload } },
                        side: [history([before, interrupt], interrupt, { now: NOW })],
                    },
                    { now: NOW },
                ),
            );
            assertInert(people(interrupt, { now: NOW, me: payload }));
            assert.equal(typeof headline(interrupt), "string");
            found
                .ways(tools)
                .filter(({ fields }) => fields)
                .forEach(({ fields }) => assertInert(fields.describe({ errors: { "": payload } })));
        }
        assertInert(outcome({ outcome: payload, status: payload }, { way: { id: "x", label: "x", look: "plain" }, next: { href: "/a", title: payload } }));
    });
}
