//! Serves this page and the installed AG-UI client: node examples/ag-ui/serve.mjs [PORT]
//! No build step. The browser finds the client and its dependencies by an import map, generated from the packages.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, extname, join, normalize, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const page = dirname(fileURLToPath(import.meta.url));
const packages = resolve(page, "../../clients/ag-ui/node_modules");
const mediaTypes = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".json": "application/json" };

/** Returns the import map: the URLs of the modules that the client imports by name. */
function importMap() {
    const client = "client-v1";
    const map = { imports: { "@ag-ui/client": entry(client, "") } };
    const names = [
        ["@ag-ui/core", ""], ["@ag-ui/core", "/schemas"], ["@ag-ui/proto", ""], ["@ag-ui/encoder", ""],
        ["@bufbuild/protobuf", "/wire"], ["compare-versions", ""], ["fast-json-patch", ""], ["rxjs", ""], ["rxjs", "/operators"],
        ["tslib", ""], ["untruncate-json", ""], ["uuid", ""], ["zod", ""], ["zod", "/v4"],
    ];
    for (const [name, path] of names) {
        const own = join(client, "node_modules", name);
        map.imports[name + path] = entry(existsSync(join(packages, own)) ? own : name, path);
    }
    return JSON.stringify(map, null, 2);
}

/** Returns the URL of the module of a package that a browser can load. */
function entry(folder, path) {
    const { exports = {}, module, main } = JSON.parse(readFileSync(join(packages, folder, "package.json"), "utf8"));
    const listed = exports[`.${path}`] ?? (path === "" ? exports : undefined);
    const found = chooseExport(listed) ?? (path === "" ? (module ?? main) : path.slice(1));
    return `/packages/${folder.split(sep).join("/")}/${normalize(found).split(sep).join("/")}`;
}

function chooseExport(value) {
    if (typeof value !== "object" || value === null) return typeof value === "string" ? value : undefined;
    for (const condition of ["browser", "es2015", "import", "module", "default"]) {
        const found = condition in value ? chooseExport(value[condition]) : undefined;
        if (found) return found;
    }
    return undefined;
}

async function load(path) {
    if (path === "/" || path === "/index.html") {
        const text = await readFile(join(page, "index.html"), "utf8");
        return { mediaType: "text/html", body: text.replace("/* import map */", importMap()) };
    }
    const inPackages = path.startsWith("/packages/");
    const root = inPackages ? packages : page;
    const wanted = normalize(join(root, inPackages ? path.slice("/packages".length) : path));
    // Some packages omit the file extension when they import their own files.
    const file = [wanted, `${wanted}.js`, join(wanted, "index.js")].find((one) => existsSync(one) && statSync(one).isFile());
    const mediaType = file && mediaTypes[extname(file)];
    if (!mediaType || !realpathSync(file).startsWith(realpathSync(root) + sep)) return undefined;
    return { mediaType, body: await readFile(file) };
}

/** Listens on the loopback address. Resolves to the URL and a function that closes the server. */
export function serve(port) {
    if (!existsSync(packages)) throw new Error("the client is not installed; run scripts/ag-ui-clients --install");
    const server = createServer(async (request, response) => {
        const found = await load(decodeURIComponent(new URL(request.url, "http://page").pathname)).catch(() => undefined);
        response.writeHead(found ? 200 : 404, { "Content-Type": `${found?.mediaType ?? "text/plain"}; charset=utf-8`, "Cache-Control": "no-store" });
        response.end(found?.body ?? "not found\n");
    });
    return new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, "127.0.0.1", () => resolve({ url: `http://127.0.0.1:${server.address().port}`, close: () => (server.close(), server.closeAllConnections()) }));
    });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
    const { url } = await serve(Number(process.argv[2] ?? 8585));
    console.log(`the page is at ${url}; start the server with: holdpoint serve --demo --cors-origin ${url}`);
}
