//! Statements of clients, and parts of them, that are answered by others: DataFusion does not plan
//! them, and what they look for does not exist here.

/// A statement that is known by a part of its text.
pub(super) struct KnownStatement {
    mark: &'static str,
    /// What is run for it.
    pub sql: &'static str,
    /// The types of its parameters, which are not looked at.
    pub parameters: &'static [u32],
}

/// Whole statements.
const STATEMENTS: [KnownStatement; 4] = [
    // asyncpg asks for the types that it does not know, here arrays: it gets all of them.
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

/// Parts of statements, and what they are replaced by.
const PARTS: [(&str, &str); 9] = [
    // ADBC: pg_type has the names of functions here.
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
    // DBeaver: pg_type has the names of functions here.
    ("'pg_catalog.array_in'::regproc", "'array_in'"),
    // Npgsql: the same.
    ("proc.oid = typ.typreceive", "proc.proname = typ.typreceive"),
    ("elemproc.oid = elemtyp.typreceive", "elemproc.proname = elemtyp.typreceive"),
    // pgcli: the types of the arguments of functions.
    ("COALESCE(proallargtypes::regtype[], proargtypes::regtype[])::text[]", "NULL::text[]"),
];

/// The known statement that this is, if any.
pub(super) fn statement(sql: &str) -> Option<&'static KnownStatement> {
    STATEMENTS.iter().find(|known| sql.contains(known.mark))
}

/// The statement with known parts replaced.
pub(super) fn replaced(sql: &str) -> String {
    PARTS.iter().fold(sql.to_owned(), |sql, (part, other)| sql.replace(part, other))
}
