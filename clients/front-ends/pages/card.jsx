//! One interrupt as a card: its message, a form for editable or required values, and buttons.

const labels = { tool_call: ["Approve", "Deny"], confirmation: ["Approve", "Deny"] };

/**
 * `answer(payload)` answers the interrupt, `cancel()` declines it. The browser submits a form only if it matches its
 * schema.
 */
export function Card({ interrupt, answer, cancel }) {
    const { schema, first, shown, payload } = formOf(interrupt);
    const [yes, no] = labels[interrupt.reason] ?? ["Submit", undefined];
    const fields = Object.entries(schema.properties ?? {});
    const submit = (event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        const values = fields.map(([name, field]) => [name, parse(given.get(name), field)]);
        answer(payload(Object.fromEntries(values.filter(([, value]) => value !== undefined))));
    };
    return (
        <form className="interrupt" onSubmit={submit}>
            <p>{interrupt.message}</p>
            {shown && <pre>{JSON.stringify(shown, null, 2)}</pre>}
            {fields.map(([name, field]) => (
                <label key={name}>
                    {field.title ?? name} <Field name={name} schema={field} first={first[name]} required={schema.required?.includes(name)} />
                </label>
            ))}
            <button type="submit">{yes}</button>
            {no && <button type="button" onClick={() => answer({ approved: false, reason: "not this one" })}>{no}</button>}
            <button type="button" onClick={cancel}>Cancel</button>
        </form>
    );
}

/**
 * Returns the schema of the form, its initial values, the data shown instead of a form, and the function that builds
 * the payload.
 */
function formOf({ reason, responseSchema, metadata }) {
    const { toolCall, artifact, data } = metadata?.holdpoint ?? {};
    const edited = responseSchema?.properties?.editedArgs;
    if (edited) {
        const first = toolCall.arguments;
        // Arguments without a field do not change.
        const others = Object.fromEntries(Object.entries(first).filter(([name]) => !(name in (edited.properties ?? {}))));
        return { schema: edited, first, payload: (values) => ({ approved: true, editedArgs: { ...others, ...values } }) };
    }
    if (reason === "input_required") return { schema: responseSchema, first: {}, payload: (values) => values };
    return { schema: {}, first: {}, shown: toolCall?.arguments ?? artifact ?? data, payload: () => ({ approved: true }) };
}

/** Strings are edited as they are, all other values as JSON. */
function Field({ name, schema, first, required }) {
    const { type, minimum, maximum, minLength, maxLength } = schema;
    const defaultValue = type === "string" || first === undefined ? (first ?? "") : JSON.stringify(first);
    if (schema.enum) {
        return <select {...{ name, required, defaultValue }}>{["", ...schema.enum].map((one) => <option key={one}>{one}</option>)}</select>;
    }
    if (type === "string") return <input {...{ name, required, defaultValue, minLength, maxLength }} />;
    if (type === "number" || type === "integer") {
        return <input type="number" step={type === "integer" ? 1 : "any"} min={minimum} max={maximum} {...{ name, required, defaultValue }} />;
    }
    const check = ({ target }) => target.setCustomValidity(isJson(target.value) ? "" : "Enter JSON.");
    return <textarea onInput={check} {...{ name, required, defaultValue }} />;
}

/** Returns the value of a field, or undefined if it is empty. */
function parse(text, { type, enum: choices }) {
    if (text === "" || text === null) return undefined;
    if (choices) return choices.find((one) => String(one) === text);
    if (type === "number" || type === "integer") return Number(text);
    return type === "string" ? text : JSON.parse(text);
}

function isJson(text) {
    try {
        return text === "" || JSON.parse(text) !== undefined;
    } catch {
        return false;
    }
}
