//! Statements of well-known clients, and parts of such statements, that are replaced by other SQL.
//! DataFusion cannot plan them, and the objects that they look for do not exist here.

/// A statement that is recognized by a part of its text, `mark`.
pub(super) struct KnownStatement {
    mark: &'static str,
    /// The SQL that runs instead.
    pub sql: &'static str,
    /// The `oid`s of the types of its parameters, whose values are ignored.
    pub parameters: &'static [u32],
}

/// Statements that are replaced as a whole.
const STATEMENTS: [KnownStatement; 4] = [
    // asyncpg queries the types that it does not know, here arrays: it gets all array types.
    KnownStatement {
        mark: "WITH RECURSIVE typeinfo_tree(",
        sql: "SELECT t.oid AS oid, 'pg_catalog' AS ns, t.typname AS name, t.typtype AS kind, NULL::text AS basetype, \
              t.typelem AS elemtype, e.typdelim AS elemdelim, NULL::text AS range_subtype, NULL::text AS attrtypoids, \
              NULL::text AS attrnames, 0 AS depth, NULL::text AS basetype_name, e.typname AS elemtype_name, \
              NULL::text AS range_subtype_name \
              FROM pg_catalog.pg_type t JOIN pg_catalog.pg_type e ON t.typelem = e.oid \
              WHERE t.typlen = -1 AND t.typelem <> 0 AND e.typtype = 'b'",
        parameters: &[1028],
    },
    // psql's \dd, \dL and \dX: comments on constraints and operators, procedural languages,
    // extended statistics. There are none.
    KnownStatement {
        mark: "SELECT DISTINCT tt.nspname AS \"Schema\", tt.name AS \"Name\", tt.object AS \"Object\"",
        sql: "SELECT '' AS \"Schema\", '' AS \"Name\", '' AS \"Object\", '' AS \"Description\" WHERE false",
        parameters: &[],
    },
    KnownStatement {
        mark: "FROM pg_catalog.pg_language l",
        sql: "SELECT '' AS \"Name\", '' AS \"Owner\", true AS \"Trusted\", '' AS \"Description\" WHERE false",
        parameters: &[],
    },
    KnownStatement {
        mark: "pg_catalog.pg_get_statisticsobjdef_columns(es.oid)",
        sql: "SELECT '' AS \"Schema\", '' AS \"Name\", '' AS \"Definition\", '' AS \"Ndistinct\", \
              '' AS \"Dependencies\", '' AS \"MCV\" WHERE false",
        parameters: &[],
    },
];

/// Parts of statements, and their replacements.
const PARTS: [(&str, &str); 9] = [
    // ADBC: here, these columns of `pg_type` contain names of functions instead of their `oid`s.
    ("(typreceive != 0 OR typsend != 0) AND ", ""),
    // psql's \d+: options of tables, of which there are none.
    (
        "pg_catalog.array_to_string(c.reloptions || array(select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x), ', ')",
        "''",
    ),
    // pgJDBC: the columns of indexes, of which there are none.
    ("(information_schema._pg_expandarray(i.indkey)).n", "1"),
    ("information_schema._pg_expandarray(i.indkey)", "1"),
    ("(result.KEYS).x", "result.KEYS"),
    // DBeaver: here, `pg_type` contains names of functions instead of their `oid`s.
    ("'pg_catalog.array_in'::regproc", "'array_in'"),
    // Npgsql: likewise.
    ("proc.oid = typ.typreceive", "proc.proname = typ.typreceive"),
    ("elemproc.oid = elemtyp.typreceive", "elemproc.proname = elemtyp.typreceive"),
    // pgcli: the types of the arguments of functions.
    ("COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[]", "NULL::text[]"),
];

/// The replacement for a known statement; `None` for other statements.
pub(super) fn statement(sql: &str) -> Option<&'static KnownStatement> {
    STATEMENTS.iter().find(|known| sql.contains(known.mark))
}

/// Replaces the known parts of a statement.
pub(super) fn replaced(sql: &str) -> String {
    PARTS.iter().fold(sql.to_owned(), |sql, (part, other)| sql.replace(part, other))
}
