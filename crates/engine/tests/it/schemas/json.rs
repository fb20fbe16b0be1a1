//! Files of JSON, whose fields may hold anything.

use super::Files;

#[tokio::test(flavor = "multi_thread")]
async fn values_of_several_kinds_are_text() {
    let mixed = "{\"id\":1,\"v\":{\"a\": 1}}\n{\"id\":2,\"v\":\"x\"}\n{\"id\":3,\"v\":[1, \"two\"]}\n{\"id\":4,\"v\":2.50}\n\
                 {\"id\":5,\"v\":true}\n{\"id\":6,\"v\":null}\n{\"id\":7}\n";
    let files = Files::texts(&[
        ("v.ndjson", mixed),
        // As journald writes text that is not UTF-8.
        (
            "journal.ndjson",
            "{\"MESSAGE\":\"started\",\"PRIORITY\":\"6\"}\n{\"MESSAGE\":[104,105],\"PRIORITY\":\"3\"}\n",
        ),
        ("d/1.ndjson", "{\"id\":1,\"p\":{\"k\":1},\"m\":[{\"t\":1,\"w\":\"a\"}]}\n"),
        ("d/2.ndjson", "{\"id\":2,\"p\":\"none\",\"m\":[{\"t\":{\"z\":[]},\"w\":\"b\"},{\"w\":null}]}\n"),
        (
            "doc.json",
            "{\"Records\": [\n {\"e\":\"A\",\"p\":null},\n {\"e\":\"B\",\"p\":[1]},\n {\"e\":\"B\",\"p\":\"q\"}]}\n",
        ),
    ])
    .await;
    files
        .answer(&[
            (
                "SELECT id, v FROM '{}/v.ndjson' ORDER BY id",
                &[
                    &["1", "{\"a\": 1}"],
                    &["2", "x"],
                    &["3", "[1, \"two\"]"],
                    &["4", "2.50"],
                    &["5", "true"],
                    &["6", "NULL"],
                    &["7", "NULL"],
                ],
            ),
            ("SELECT sum(id), count(v) FROM '{}/v.ndjson'", &[&["28", "5"]]),
            ("SELECT id FROM '{}/v.ndjson' WHERE v = '[1, \"two\"]'", &[&["3"]]),
            ("SELECT id FROM '{}/v.ndjson' WHERE v LIKE '%\"a\": 1%'", &[&["1"]]),
            ("SELECT id FROM '{}/v.ndjson' WHERE v IN ('x', 'true', '2.50') ORDER BY id", &[&["2"], &["4"], &["5"]]),
            ("SELECT count(*) FROM '{}/v.ndjson' WHERE v IS NULL", &[&["2"]]),
            ("SELECT max(id) FROM '{}/v.ndjson' WHERE id < 4", &[&["3"]]),
            ("SELECT v, count(*) FROM '{}/v.ndjson' WHERE id < 3 GROUP BY v ORDER BY v", &[
                &["x", "1"],
                &["{\"a\": 1}", "1"],
            ]),
            ("SELECT \"MESSAGE\" FROM '{}/journal.ndjson' WHERE \"PRIORITY\" = '3'", &[&["[104,105]"]]),
            ("SELECT count(*) FROM '{}/journal.ndjson' WHERE \"PRIORITY\" < '4'", &[&["1"]]),
            ("SELECT id, p FROM '{}/d/' ORDER BY id", &[&["1", "{\"k\":1}"], &["2", "none"]]),
            ("SELECT m[1]['t'], m[1]['w'], array_length(m) FROM '{}/d/' ORDER BY id", &[
                &["1", "a", "1"],
                &["{\"z\":[]}", "b", "2"],
            ]),
            (
                "SELECT r['e'], count(*) FROM (SELECT unnest(\"Records\") AS r FROM '{}/doc.json') GROUP BY 1 ORDER BY 1",
                &[&["A", "1"], &["B", "2"]],
            ),
            ("SELECT r['p'] FROM (SELECT unnest(\"Records\") AS r FROM '{}/doc.json') ORDER BY 1 NULLS LAST", &[
                &["[1]"],
                &["q"],
                &["NULL"],
            ]),
        ])
        .await;
    let strict = "CREATE EXTERNAL TABLE s STORED AS JSON LOCATION '{}/d/' OPTIONS ('union_by_name' 'false')";
    files.refuse(strict, &["d/2.ndjson: the field 'p' is an object or a list", "declare the columns"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_lists_and_objects_fit_all() {
    let files = Files::texts(&[
        ("t/1.ndjson", "{\"id\":1,\"l\":[],\"o\":[],\"x\":{}}\n"),
        ("t/2.ndjson", "{\"id\":2,\"l\":[1,2],\"o\":{\"a\":1.5},\"x\":[7]}\n{\"id\":3,\"l\":{},\"o\":{},\"x\":null}\n"),
        ("e.ndjson", "{\"id\":1,\"o\":{}}\n{\"id\":2,\"o\":{}}\n"),
        ("n/1.ndjson", "{\"id\":1,\"n\":1}\n"),
        ("n/2.ndjson", "{\"id\":2,\"n\":2.5,\"more\":\"x\"}\n"),
    ])
    .await;
    files
        .answer(&[
            ("SELECT id, array_length(l), o['a'] FROM '{}/t/' WHERE id = 2", &[&["2", "2", "1.5f"]]),
            ("SELECT count(*), sum(l[1]), sum(o['a']), max(x[1]) FROM '{}/t/'", &[&["3", "1", "1.5f", "7"]]),
            ("SELECT id FROM '{}/t/' WHERE o['a'] IS NULL ORDER BY id", &[&["1"], &["3"]]),
            ("SELECT id, o FROM '{}/e.ndjson' ORDER BY id", &[&["1", "{}"], &["2", "{}"]]),
            ("SELECT sum(n), count(more) FROM '{}/n/' WHERE n > 0", &[&["3.5f", "1"]]),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_keep_their_digits_and_hinder_no_other_column() {
    let files = Files::texts(&[
        ("big.ndjson", "{\"id\":1,\"n\":12345678901234567890}\n{\"id\":2,\"n\":-5}\n{\"id\":3,\"n\":123456789012345678901234567890}\n"),
        ("huge.ndjson", "{\"id\":1,\"n\":1E400}\n{\"id\":2,\"n\":1.5}\n"),
        (
            "huger.ndjson",
            "{\"id\":1,\"n\":123456789012345678901234567890123456789012345}\n{\"id\":2,\"n\":1,\"o\":{\"deep\":[[[1]]]}}\n",
        ),
    ])
    .await;
    files
        .answer(&[
            (
                "SELECT CAST(n AS VARCHAR) AS digits FROM '{}/big.ndjson' ORDER BY n",
                &[&["-5"], &["12345678901234567890"], &["123456789012345678901234567890"]],
            ),
            ("SELECT id FROM '{}/big.ndjson' WHERE n = 12345678901234567890", &[&["1"]]),
            ("SELECT CAST(sum(n) AS VARCHAR) FROM '{}/big.ndjson' WHERE id < 3", &[&["12345678901234567885"]]),
            ("SELECT sum(id), count(*) FROM '{}/huge.ndjson'", &[&["3", "2"]]),
            ("SELECT id FROM '{}/huge.ndjson' WHERE id > 1", &[&["2"]]),
            ("SELECT n FROM '{}/huge.ndjson' WHERE id = 2", &[&["1.5f"]]),
            (
                "SELECT * FROM '{}/huger.ndjson' ORDER BY id",
                &[&["1", "123456789012345678901234567890123456789012345", "NULL"], &["2", "1", "{deep: [[[1]]]}"]],
            ),
            ("SELECT sum(id) FROM '{}/huger.ndjson'", &[&["3"]]),
        ])
        .await;
}
