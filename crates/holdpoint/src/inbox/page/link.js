//! The page of a signed link. It calls only the address of the link.

import { createApi } from "./api.js";
import { update } from "./dom.js";
import { keyFor } from "./keys.js";
import { open } from "./views/link.js";

const main = document.getElementById("main");
const live_region = document.getElementById("announce");
// `…/v1/interrupts/<token>`: the part before it is the prefix that a proxy adds to all paths.
const found = /^(.*)\/v1\/interrupts\/([^/]+)\/?$/.exec(location.pathname);
const prefix = found?.[1] ?? "";
const token = found?.[2] ?? "";

const api = createApi({ root: prefix, fetch: (address, request) => fetch(address, { ...request, credentials: "omit" }) });
let view = null;

start();

async function start() {
    view = await open({ api, params: { token }, redraw: draw, now: () => api.now(), announce, inbox: `${prefix}/inbox` });
    main.removeAttribute("aria-busy");
    draw();
    document.addEventListener("keydown", (event) => {
        const key = keyFor(event, view.keys());
        if (key) {
            event.preventDefault();
            key.act(event);
        }
    });
}

function draw() {
    if (view) {
        update(main, view.describe());
        document.title = main.querySelector("h1")?.textContent ?? document.title;
    }
}

function announce(text) {
    live_region.textContent = text;
}
