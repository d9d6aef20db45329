//! Bundles the pages of this folder and serves them on a free port.

import { build } from "esbuild";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../pages/", import.meta.url));

/** Serves these pages, and `routes`: listeners by the first part of the path. */
export async function serve(pages, routes) {
    const { outputFiles } = await build({
        entryPoints: [...pages].map((page) => `${folder}${page}.jsx`),
        bundle: true, splitting: true, minify: true, write: false, outdir: folder, format: "esm", jsx: "automatic", logLevel: "error",
        define: { "process.env.NODE_ENV": '"production"' },
        loader: Object.fromEntries([".woff", ".woff2", ".ttf"].map((ending) => [ending, "empty"])),
    });
    const scripts = new Map(outputFiles.map(({ path, contents }) => [`/${basename(path)}`, contents]));
    const html = (page) => `<!doctype html><meta charset="utf-8"><title>${page}</title><div id="root"></div>
        <script type="module" src="/${page}.js"></script>`;
    // The cookie of a signed-in user.
    const cookie = `session=${randomUUID()}`;
    const site = createServer((request, response) => {
        const listener = routes[request.url.split("/")[1]];
        if (listener) return void listener(request, response);
        const script = scripts.get(request.url);
        const [type, body] = script ? ["text/javascript", script] : ["text/html", html(request.url.slice(1))];
        response.writeHead(200, { "Content-Type": type, "Set-Cookie": `${cookie}; HttpOnly; SameSite=Strict` }).end(body);
    });
    await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
    // The open server must not keep the process of a failed test alive.
    site.unref();
    return { url: `http://127.0.0.1:${site.address().port}`, cookie, close: () => site.close() };
}
