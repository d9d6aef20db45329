//! One interrupt as a card: what is asked, a form for what may be changed or must be given, and buttons.

const labels = { tool_call: ["Approve", "Deny"], confirmation: ["Approve", "Deny"] };

/** `answer(payload)` answers the interrupt, `cancel()` declines it. */
export function Card({ interrupt, answer, cancel }) {
    const { fields, first, payload } = formOf(interrupt);
    const [yes, no] = labels[interrupt.reason] ?? ["Submit", undefined];
    const submit = (event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        const values = Object.entries(fields).map(([name, schema]) => [name, typed(given.get(name), schema)]);
        answer(payload(Object.fromEntries(values.filter(([, value]) => value !== undefined))));
    };
    return (
        <form className="interrupt" onSubmit={submit}>
            <p>{interrupt.message}</p>
            {Object.entries(fields).map(([name, schema]) => (
                <label key={name}>
                    {schema.title ?? name} <input name={name} defaultValue={first[name] ?? ""} />
                </label>
            ))}
            <button type="submit">{yes}</button>
            {no && <button type="button" onClick={() => answer({ approved: false, reason: "not this one" })}>{no}</button>}
            <button type="button" onClick={cancel}>Cancel</button>
        </form>
    );
}

/** The fields of the form, what they begin with, and the payload made of them. */
function formOf({ reason, responseSchema, metadata }) {
    const edited = responseSchema?.properties?.editedArgs;
    if (edited) {
        const first = metadata.holdpoint.toolCall.arguments;
        return { fields: edited.properties ?? {}, first, payload: (values) => ({ approved: true, editedArgs: { ...first, ...values } }) };
    }
    if (reason === "input_required") return { fields: responseSchema.properties, first: {}, payload: (values) => values };
    return { fields: {}, first: {}, payload: () => ({ approved: true }) };
}

/** The text of a field as its schema wants it. */
function typed(text, { type }) {
    if (text === "" || text === null) return undefined;
    return type === "number" || type === "integer" ? Number(text) : text;
}
