//! The pages of this folder, bundled, on a free port.

import { build } from "esbuild";
import { createServer } from "node:http";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../pages/", import.meta.url));

/** Serves these pages. */
export async function serve(pages) {
    const { outputFiles } = await build({
        entryPoints: [...pages].map((page) => `${folder}${page}.jsx`),
        bundle: true, splitting: true, minify: true, write: false, outdir: folder, format: "esm", jsx: "automatic", logLevel: "error",
        define: { "process.env.NODE_ENV": '"production"' },
        loader: Object.fromEntries([".woff", ".woff2", ".ttf"].map((ending) => [ending, "empty"])),
    });
    const scripts = new Map(outputFiles.map(({ path, contents }) => [`/${basename(path)}`, contents]));
    const html = (page) => `<!doctype html><meta charset="utf-8"><title>${page}</title><div id="root"></div>
        <script type="module" src="/${page}.js"></script>`;
    const site = createServer((request, response) => {
        const script = scripts.get(request.url);
        const [type, body] = script ? ["text/javascript", script] : ["text/html", html(request.url.slice(1))];
        response.writeHead(200, { "Content-Type": type }).end(body);
    });
    await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
    return { url: `http://127.0.0.1:${site.address().port}`, close: () => site.close() };
}
