use super::*;

const A: &str =
    "CREATE EXTERNAL TABLE a (x INT) STORED AS CSV LOCATION 's3://b/a;''--/' OPTIONS ('format.delimiter' ';')";
const B: &str = "create external table public.\"B\" stored as parquet location 's3://b/b/'";

fn catalog() -> (tempfile::TempDir, CatalogFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = CatalogFile::at(folder.path().join("deep").join("catalog.sql"));
    (folder, file)
}

fn names(file: &CatalogFile) -> Vec<String> {
    file.load().unwrap().into_iter().map(|table| table.name).collect()
}

#[test]
fn tables_are_known_tomorrow() {
    let (_folder, file) = catalog();
    assert_eq!(file.load().unwrap(), []);
    assert_eq!(file.put(A).unwrap().name, "a");
    assert_eq!(file.put(&format!("{B} ;\n")).unwrap().name, "B");
    let again = CatalogFile::at(&file.path);
    assert_eq!(names(&again), ["a", "B"]);
    assert_eq!(again.load().unwrap()[0].statement, A);
    assert_eq!(again.load().unwrap()[1].statement, B);
    assert!(fs::read_to_string(&file.path).unwrap().starts_with("-- PushdownDB catalog, version 1\n"));

    let other = A.replace("x INT", "y INT");
    file.put(&other).unwrap();
    assert_eq!(names(&file), ["a", "B"]);
    assert_eq!(file.load().unwrap()[0].statement, other);

    assert!(file.remove("datafusion.public.a").unwrap());
    assert!(!file.remove("a").unwrap());
    assert!(!file.remove("b").unwrap());
    assert_eq!(names(&file), ["B"]);
}

#[test]
fn what_the_user_wrote_stays() {
    let (_folder, file) = catalog();
    fs::create_dir_all(file.path.parent().unwrap()).unwrap();
    fs::write(&file.path, format!("-- mine; 'all of it\n\n/* first */ {A};\n-- second\n{B} -- no end")).unwrap();
    file.put(&A.replace("x INT", "z INT")).unwrap();
    file.put("CREATE EXTERNAL TABLE c STORED AS CSV LOCATION 's3://b/c'").unwrap();
    let text = fs::read_to_string(&file.path).unwrap();
    assert!(text.starts_with("-- mine; 'all of it\n\n/* first */ CREATE EXTERNAL TABLE a (z INT)"), "{text}");
    assert!(text.contains("-- second"), "{text}");
    assert_eq!(names(&file), ["a", "B", "c"]);
}

#[test]
fn a_broken_file_is_never_written_to() {
    let (_folder, file) = catalog();
    fs::create_dir_all(file.path.parent().unwrap()).unwrap();
    for (text, part) in [
        (format!("{A};\n\nCREATE EXTERNAL TABEL b;"), "line 3"),
        ("DROP TABLE a;".to_owned(), "only CREATE EXTERNAL TABLE"),
        ("-- PushdownDB catalog, version 4\n".to_owned(), "version 4"),
        ("-- PushdownDB catalogue, version 3\n".to_owned(), "version 3"),
    ] {
        fs::write(&file.path, &text).unwrap();
        for error in [file.load().unwrap_err(), file.put(B).unwrap_err(), file.remove("a").unwrap_err()] {
            let error = error.to_string();
            assert!(error.contains(part) && error.contains("catalog.sql"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file.path).unwrap(), text);
    }
    assert!(file.put("SELECT 1").unwrap_err().to_string().contains("only CREATE EXTERNAL TABLE"));
}

#[test]
fn views_and_tables_in_memory_are_kept() {
    let (_folder, file) = catalog();
    file.put(B).unwrap();
    let view = file.put("create or replace view \"V\" as from 't.csv'").unwrap();
    assert_eq!((view.name.as_str(), view.kind), ("V", TableKind::View));
    let here = std::env::current_dir().unwrap();
    assert!(view.statement.ends_with(&format!("from '{}/t.csv'", here.display())), "{}", view.statement);
    let table = file.put("CREATE TABLE IF NOT EXISTS public.M (a INT DEFAULT 3)").unwrap();
    assert_eq!((table.name.as_str(), table.kind), ("m", TableKind::Memory));
    let kinds: Vec<_> = file.load().unwrap().iter().map(|table| table.kind).collect();
    assert_eq!(kinds, [TableKind::External, TableKind::View, TableKind::Memory]);
    // Versions of PushdownDB without views refuse the file.
    assert!(fs::read_to_string(&file.path).unwrap().starts_with("-- PushdownDB catalog, version 2\n"));
    assert!(file.remove("V").unwrap());
    for other in ["CREATE TEMP VIEW v AS SELECT 1", "CREATE VIEW v", "CREATE VIEW v AS SELECT 1; DROP TABLE m"] {
        assert!(file.put(other).is_err(), "{other}");
    }
}

#[test]
fn relative_locations_become_absolute() {
    let (_folder, file) = catalog();
    file.put("CREATE EXTERNAL TABLE location (x INT) STORED AS CSV LOCATION 'data/o''hara/*.csv'").unwrap();
    let statement = file.load().unwrap().remove(0).statement;
    let here = std::env::current_dir().unwrap();
    assert!(statement.contains(&format!("'{}/data/o''hara/*.csv'", here.display())), "{statement}");
}

#[test]
fn shells_do_not_lose_each_others_tables() {
    let (_folder, file) = catalog();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let file = &file;
            scope.spawn(move || {
                let statement = format!("CREATE EXTERNAL TABLE t{n} STORED AS CSV LOCATION 's3://b/{n}'");
                file.put(&statement).unwrap();
            });
        }
    });
    assert_eq!(names(&file).len(), 8);
}

#[cfg(unix)]
#[test]
fn others_cannot_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, file) = catalog();
    file.put(A).unwrap();
    assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
}
