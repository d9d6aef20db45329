//! What the page of a signed link says. In English; a translation replaces the values.

export const link = {
    title: "Holdpoint",
    asWho: (name) => `This link answers in the name of ${name}.`,
    lookOnly: "This link is for looking only. It cannot answer.",
    worksFor: (duration) => `This link works for another ${duration}.`,
    decidesNothing: "Opening this page has decided nothing. You are asked once more before anything is sent.",
    doneText: "Thank you. You can close this page.",
    reload: "Try again",
    states: {
        unknown: {
            title: "This link is not known",
            text: "It is incomplete, was changed on its way, or was withdrawn. Copy the whole link from the message once more, or ask whoever sent it for a new one.",
        },
        expired: {
            title: "This link is past its time",
            text: "The link, or the question behind it, had a deadline that is over. Nothing was decided by opening it. Ask whoever sent it for a new one if it still matters.",
        },
        answered: {
            title: "This is decided already",
            text: "Somebody has answered, or what asked has ended. Nothing is left for you to do.",
        },
        cancelled: {
            title: "This was cancelled",
            text: "What asked this was cancelled before somebody answered. Nothing is left for you to do.",
        },
        signIn: {
            title: "This needs you to sign in",
            text: "Whoever answers this must be signed in with a key; a link is not enough. Open the inbox and sign in there.",
        },
        busy: {
            title: "Too many tries",
            text: "This link, or this place, has asked too often. Wait a minute, then try again.",
        },
        failed: {
            title: "The link could not be opened",
            text: "The server cannot be reached or had a problem. Nothing was decided.",
        },
    },
    toInbox: "Open the inbox",
};
