// The client `pg` of Node against an SQL server: types, parameters, cursors by portals, errors, cancel.
//
// usage: node_client.mjs HOST:PORT FOLDER MODULES
//
// FOLDER is one that the server's SQL may read; MODULES is the folder with pg.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";

const [address, folder, modules] = process.argv.slice(2);
const [host, port] = address.split(":");
const pg = createRequire(modules + "/x.js")("pg");
const config = { host, port: Number(port), user: "tester", database: "pushdowndb" };

writeFileSync(folder + "/node.csv", 'id,name,price,day\n1,"a ""b""",1.50,2024-02-29\n2,,-0.25,1999-12-31\n');
const client = new pg.Client(config);
await client.connect();
const file = `'${folder}/node.csv'`;
const all = await client.query(`SELECT id, name, price, day::text AS day, id > 1 AS big, ARRAY[id, NULL] AS list FROM ${file} ORDER BY id`);
assert.deepEqual(all.rows, [
  { id: "1", name: 'a "b"', price: 1.5, day: "2024-02-29", big: false, list: ["1", null] },
  { id: "2", name: null, price: -0.25, day: "1999-12-31", big: true, list: ["2", null] },
]);
assert.deepEqual(all.fields.map((field) => field.dataTypeID), [20, 25, 701, 25, 16, 1016]);
const one = await client.query({ text: `SELECT name FROM ${file} WHERE id = $1 AND price < $2`, values: [1, "2"] });
assert.equal(one.rows[0].name, 'a "b"');
const array = await client.query({ text: `SELECT name FROM ${file} WHERE id = ANY($1::bigint[])`, values: [[1, 7]], rowMode: "array" });
assert.deepEqual(array.rows, [['a "b"']]);
for (const number of [1, 2, 3]) {
  const named = await client.query({ name: "double", text: "SELECT $1::int * 2 AS n", values: [number] });
  assert.equal(named.rows[0].n, String(number * 2));
}
// The rows of a portal, some at a time.
const some = await client.query({ text: "SELECT value FROM generate_series(1, 1000)", rows: 10, values: [] });
assert.ok(some.rows.length >= 10);
await assert.rejects(client.query("SELECT * FROM missing"), (error) => error.code === "42P01");
await assert.rejects(client.query({ text: "SELECT 1 / $1::int", values: [0] }), (error) => error.code === "22012");
await assert.rejects(client.query({ text: "SELECT $1::int", values: ["x"] }), (error) => error.code === "22P02");
const many = await client.query("SELECT value, 'row ' || value AS t FROM generate_series(1, 100000) ORDER BY value");
assert.equal(many.rows.length, 100000);
assert.equal(many.rows[99999].t, "row 100000");

const other = new pg.Client(config);
await other.connect();
const pid = (await client.query("SELECT pg_backend_pid() AS pid")).rows[0].pid;
const slow = client.query("SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 3 = 7");
const stopped = assert.rejects(slow, (error) => error.code === "57014");
for (;;) {
  const { rows } = await other.query("SELECT query FROM pg_stat_activity WHERE pid = $1 AND state = 'active'", [pid]);
  if (rows.length > 0) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
await other.query("SELECT pg_cancel_backend($1)", [pid]);
await stopped;
assert.equal((await client.query("SELECT 1 AS n")).rows.length, 1);
await Promise.all([client.end(), other.end()]);
console.log("node: ok");
