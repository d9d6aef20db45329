//! Texts of the page of a signed link, in English. A translation replaces the values.

export const link = {
    onBehalfOf: (name) => `This link answers on behalf of ${name}.`,
    lookOnly: "This link is for viewing only. It cannot answer.",
    expiresIn: (duration) => `This link expires in ${duration}.`,
    decidesNothing: "Opening this page decides nothing. You confirm your answer before it is sent.",
    doneText: "Thank you. You can close this page.",
    reload: "Try again",
    states: {
        unknown: {
            title: "Unknown link",
            text: "The link is incomplete, was changed, or was revoked. Copy the complete link from the message again, or ask the sender for a new one.",
        },
        expired: {
            title: "This link has expired",
            text: "The deadline of the link or of its interrupt has passed. Opening the link decided nothing. Ask the sender for a new link if an answer is still needed.",
        },
        answered: {
            title: "Already answered",
            text: "This interrupt was answered, or its run has ended. You do not need to do anything.",
        },
        cancelled: {
            title: "Cancelled",
            text: "The run was cancelled before this interrupt was answered. You do not need to do anything.",
        },
        signIn: {
            title: "Sign-in required",
            text: "This interrupt can only be answered with a key, not with a link. Open the inbox and sign in there.",
        },
        busy: {
            title: "Too many requests",
            text: "There were too many requests with this link or from this address. Wait a minute, then try again.",
        },
        failed: {
            title: "The link could not be opened",
            text: "The server cannot be reached or had a problem. No decision was made.",
        },
    },
    toInbox: "Open the inbox",
};
