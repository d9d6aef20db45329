//! The database of a test server: a SQLite database in its own folder, or its own schema in the PostgreSQL cluster that
//! HOLDPOINT_TEST_POSTGRES names.

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const cluster = process.env.HOLDPOINT_TEST_POSTGRES;

/** The databases for the tests. scripts/check provides both. */
export const engines = cluster ? ["SQLite", "PostgreSQL"] : ["SQLite"];

export class Database {
    constructor(engine) {
        this.data = mkdtempSync(join(tmpdir(), "holdpoint-inbox."));
        this.schema = engine === "PostgreSQL" ? `t_${randomBytes(12).toString("hex")}` : null;
        if (this.schema) psql(`CREATE SCHEMA ${this.schema}`);
    }

    /** Returns the options of a server with this database. */
    get options() {
        const database = this.schema ? ["--database", `${cluster}${cluster.includes("?") ? "&" : "?"}schema=${this.schema}`] : [];
        return ["--data", this.data, ...database];
    }

    remove() {
        if (this.schema) psql(`DROP SCHEMA ${this.schema} CASCADE`);
        this.schema = null;
        rmSync(this.data, { recursive: true, force: true });
    }
}

function psql(sql) {
    execFileSync("psql", ["-X", "-q", "-d", cluster, "-c", "SET lock_timeout = '5s'", "-c", "SET client_min_messages = error", "-c", sql]);
}
