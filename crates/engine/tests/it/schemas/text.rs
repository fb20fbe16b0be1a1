//! Files of CSV, whose types are those of their values.

use super::Files;
use crate::world::rows;

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_matched_by_name() {
    let files = Files::texts(&[
        ("t/1.csv", "id,name,price\n1,a,1\n2,b,2\n"),
        ("t/2.csv", "Price,id,note\n2.5,3,x\n"),
        ("t/3.csv", ""),
        ("t/4.csv", "id\n4\n5\n"),
        ("m/1.csv", "day,v\n2024-01-01,5\n"),
        ("m/2.csv", "day,v\n2024-01-02,abc\n2024-01-03,\n"),
        ("m/3.csv", "day,v\n,2024-01-01\n"),
        ("z/1.csv", "zip;n\n94107;1\n"),
        ("z/2.csv", "n;zip\n2;00123\n"),
        ("r/1.csv", "1,a\n2,b\n"),
        ("r/2.csv", "3,c,x\n"),
    ])
    .await;
    let ragged = "CREATE EXTERNAL TABLE r STORED AS CSV LOCATION '{}/r/' OPTIONS ('truncated_rows' 'true');";
    files
        .answer(&[
            (
                "SELECT id, name, price, note FROM '{}/t/' ORDER BY id",
                &[
                    &["1", "a", "1.0f", "NULL"],
                    &["2", "b", "2.0f", "NULL"],
                    &["3", "NULL", "2.5f", "x"],
                    &["4", "NULL", "NULL", "NULL"],
                    &["5", "NULL", "NULL", "NULL"],
                ],
            ),
            ("SELECT id FROM '{}/t/' WHERE price > 1 ORDER BY id", &[&["2"], &["3"]]),
            ("SELECT count(*), count(note), sum(price), max(id) FROM '{}/t/'", &[&["5", "1", "5.5f", "5"]]),
            ("SELECT note, count(*) FROM '{}/t/' GROUP BY note ORDER BY 2", &[&["x", "1"], &["NULL", "4"]]),
            ("SELECT id FROM '{}/t/' WHERE name IS NULL ORDER BY id DESC LIMIT 2", &[&["5"], &["4"]]),
            // Values that are numbers in one file and words in another are text.
            ("SELECT v FROM '{}/m/' ORDER BY v NULLS LAST", &[&["2024-01-01"], &["5"], &["abc"], &["NULL"]]),
            ("SELECT day FROM '{}/m/' WHERE v = '5'", &[&["2024-01-01"]]),
            ("SELECT max(day) FROM '{}/m/'", &[&["2024-01-03"]]),
            ("SELECT zip FROM '{}/z/' ORDER BY n", &[&["94107"], &["00123"]]),
            ("SELECT n FROM '{}/z/' WHERE zip = '00123'", &[&["2"]]),
            (
                format!("{ragged}SELECT column_1, column_3 FROM r ORDER BY 1").as_str(),
                &[&["1", "NULL"], &["2", "NULL"], &["3", "x"]],
            ),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_no_table_are_refused() {
    let files = Files::texts(&[
        // The second file has no header.
        ("t/1.csv", "id,name\n1,a\n"),
        ("t/2.csv", "2,b\n3,c\n"),
        ("o/1.csv", "id,name\n1,a\n"),
        ("o/2.csv", "name,id\nb,2\n"),
        ("v/1.csv", "id\n1\n"),
        ("v/2.csv", "id\nx\n"),
    ])
    .await;
    let none = ["t/1.csv", "t/2.csv", "the second has none of the columns of the first, but '2', 'b'", "union_by_name"];
    files.refuse("SELECT * FROM '{}/t/'", &none).await;
    let strict = |path: &str| {
        format!("CREATE EXTERNAL TABLE s STORED AS CSV LOCATION '{{}}/{path}/' OPTIONS ('union_by_name' 'false')")
    };
    files.refuse(&strict("o"), &["o/1.csv", "o/2.csv", "column 1 is 'id' in the first and 'name'"]).await;
    files.refuse(&strict("v"), &["column 'id' is BIGINT in the first and VARCHAR in the second"]).await;
}

/// Each of many files counts, and what was found out about them is asked for once.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_among_many_may_differ() {
    let texts: Vec<(String, String)> = (0..40)
        .map(|n| match n {
            17 => (format!("t/{n:02}.csv"), format!("b,a,late\n1.5,{n},x\n")),
            _ => (format!("t/{n:02}.csv"), format!("a,b\n{n},1\n")),
        })
        .collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let files = Files::texts(&files).await;
    files
        .answer(&[
            ("SELECT count(*), sum(a), sum(b), count(late) FROM '{}/t/'", &[&["40", "780", "40.5f", "1"]]),
            ("SELECT a, late FROM '{}/t/' WHERE b > 1", &[&["17", "x"]]),
        ])
        .await;
    let cache = tempfile::tempdir().expect("a folder");
    for process in 0..2 {
        let engine = files.world.engine_in("fragment", cache.path()).await;
        for turn in 0..2 {
            let sql = "SELECT count(late), max(b) FROM 's3://data/t/'";
            let (got, report) = rows(&engine, sql).await.expect("rows");
            assert_eq!(got, [["1", "1.5f"]]);
            let asked = report.usage.requests;
            assert_eq!((asked.get == 0, asked.list), (process + turn > 0, 1), "{process} {turn}: {asked:?}");
        }
    }
}
