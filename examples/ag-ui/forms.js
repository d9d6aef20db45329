//! Shows interrupts: buttons for a decision, and fields for the members of the response schema.

/** Shows all interrupts. The answers are sent together after the last one is chosen, because a resume must cover all. */
export function showInterrupts(place, interrupts, answer) {
    const entries = new Map();
    const choose = (card, interrupt, entry) => {
        entries.set(interrupt.id, { interruptId: interrupt.id, ...entry });
        card.querySelectorAll("button, input, select").forEach((one) => (one.disabled = true));
        if (entries.size === interrupts.length) answer(interrupts.map(({ id }) => entries.get(id)));
    };
    place.replaceChildren(...interrupts.map((interrupt) => {
        const card = element("div", { className: "interrupt" });
        card.dataset.reason = interrupt.reason;
        const deadline = interrupt.expiresAt ? ` · until ${new Date(interrupt.expiresAt).toLocaleTimeString()}` : "";
        card.append(
            element("p", {}, interrupt.message ?? interrupt.reason, element("small", {}, ` ${interrupt.reason}${deadline}`)),
            ...controls(interrupt, (payload) => choose(card, interrupt, { status: "resolved", payload }), () => choose(card, interrupt, { status: "cancelled" })),
        );
        return card;
    }));
}

function controls(interrupt, resolve, cancel) {
    const schema = chooseObjectSchema(interrupt.responseSchema ?? { type: "boolean" });
    const cancelButton = button("Cancel", "", cancel);
    if (schema.type === "boolean") {
        return [row(button("Yes", "yes", () => resolve(true)), button("No", "no", () => resolve(false)), cancelButton)];
    }
    if (schema.properties?.approved) return approval(interrupt, schema, resolve, cancelButton);
    return form(schema, {}, "Submit", resolve, cancelButton);
}

/** Returns the controls of an approval. If changes are allowed, all arguments are sent back with their new values. */
function approval(interrupt, schema, resolve, cancelButton) {
    const proposed = interrupt.metadata?.holdpoint?.toolCall?.arguments ?? {};
    const deny = button("Deny", "no", () => resolve({ approved: false }));
    if (!schema.properties.editedArgs) {
        const shown = element("pre", {}, JSON.stringify(proposed, null, 2));
        return [shown, row(button("Approve", "yes", () => resolve({ approved: true })), deny, cancelButton)];
    }
    const wanted = schema.properties.editedArgs.properties ?? guessProperties(proposed);
    const send = (editedArgs) => {
        const changed = JSON.stringify(editedArgs) !== JSON.stringify(pickInOrder(proposed, editedArgs));
        resolve(changed ? { approved: true, editedArgs } : { approved: true });
    };
    return form({ properties: wanted, required: Object.keys(wanted) }, proposed, "Approve", send, deny, cancelButton);
}

function form(schema, values, label, submit, ...others) {
    const properties = Object.entries(schema.properties ?? {});
    const fields = element("div", { className: "fields" });
    for (const [name, property] of properties) {
        fields.append(element("label", {}, name, field(name, property, values[name], schema.required?.includes(name))));
    }
    const made = element("form", {}, fields, element("button", { className: "yes" }, label), ...others);
    made.addEventListener("submit", (event) => {
        event.preventDefault();
        const given = properties.map(([name, property]) => [name, valueOf(made.elements[name], property)]);
        submit(Object.fromEntries(given.filter(([, value]) => value !== undefined)));
    });
    return [made];
}

function field(name, property, value, required) {
    if (property.enum) {
        return element("select", { name, required }, ...property.enum.map((one) => element("option", { selected: one === value }, String(one))));
    }
    if (property.type === "boolean") return element("input", { name, type: "checkbox", checked: value === true });
    const isNumber = ["number", "integer"].includes(property.type);
    const input = element("input", { name, required, type: isNumber ? "number" : "text", value: value ?? "" });
    if (isNumber) input.step = property.type === "integer" ? 1 : "any";
    if (property.minimum !== undefined) input.min = property.minimum;
    if (property.maximum !== undefined) input.max = property.maximum;
    return input;
}

function valueOf(input, property) {
    if (property.type === "boolean") return input.checked;
    if (input.value === "") return input.required ? "" : undefined;
    return ["number", "integer"].includes(property.type) ? Number(input.value) : input.value;
}

/** Returns the alternative that is an object, or else the first one. */
function chooseObjectSchema(schema) {
    const choices = schema.anyOf ?? schema.oneOf;
    return choices?.find(({ type }) => type === "object") ?? choices?.[0] ?? schema;
}

const guessProperties = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { type: typeof value }]));
const pickInOrder = (values, like) => Object.fromEntries(Object.keys(like).map((name) => [name, values[name]]));
const row = (...buttons) => element("form", {}, ...buttons);

function button(text, className, act) {
    const made = element("button", { type: "button", className }, text);
    made.addEventListener("click", act);
    return made;
}

export function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
}
