//! The page of `--profile`, opened in a browser: Debian's chromium, without a window.

use std::path::{Path, PathBuf};
use std::process::Command;

use pushdowndb_testkit::skip::skipped;

use crate::serve::Served;

/// A page as loaded by a browser.
struct Seen {
    /// The document, once the browser has read it.
    dom: String,
    /// Warnings, and the console output of the page.
    console: Vec<String>,
    /// The targets of requests of the page.
    requests: Vec<String>,
}

/// Returns the path of a browser, if there is one.
fn chromium() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders).map(|folder| folder.join("chromium")).find(|file| file.is_file());
    if found.is_none() {
        skipped("no browser opens the page of --profile; chromium is not installed");
    }
    found
}

fn open(chromium: &Path, page: &Path) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("net.json");
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", folder.path().join("user").display()))
        .arg(format!("--log-net-log={}", log.display()))
        .args(["--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let requests = std::fs::read_to_string(log).unwrap();
    Seen {
        dom: String::from_utf8(output.stdout).unwrap(),
        console: stderr.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
        // The browser itself asks its maker for news, from no origin.
        requests: requests
            .lines()
            .filter(|line| line.contains("\"initiator\":") && !line.contains("\"initiator\":\"not an origin\""))
            .map(str::to_owned)
            .collect(),
    }
}

/// The checks below detect a page that violates them.
#[test]
fn a_page_that_misbehaves_is_seen() {
    let Some(chromium) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("bad.html");
    let markup = "<!doctype html><p id=a>no</p><img src='http://127.0.0.1:9/x.png'>\
                  <script>console.error('broken'); document.getElementById('a').textContent = 'ran'</script>";
    std::fs::write(&page, markup).unwrap();
    let seen = open(&chromium, &page);
    assert!(seen.dom.contains("<p id=\"a\">ran</p>"), "{}", seen.dom);
    assert!(seen.console.iter().any(|line| line.contains("broken")), "{:?}", seen.console);
    assert!(seen.requests.iter().any(|line| line.contains("127.0.0.1:9/x.png")), "{:?}", seen.requests);
}

/// A statement whose text must not become markup.
const HOSTILE: &str = "</script><img src=x onerror=\"document.title=1\">";

#[test]
fn the_page_says_in_a_browser_what_the_query_did() {
    let Some(chromium) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let node = Served::start(&["--store", store.to_str().unwrap()]);
    let generate = ["generate", "tpch", "--scale", "0.01", "--to", "s3://bench/tpch", "--create-bucket"];
    node.client(&generate).ok();
    let page = dir.path().join("profile.html");
    let join = format!(
        "SELECT o_orderpriority, count(*) AS n, min('{HOSTILE}') AS \"<b>bold</b>\" FROM orders JOIN customer \
         ON o_custkey = c_custkey WHERE c_acctbal < 0 GROUP BY o_orderpriority ORDER BY n DESC LIMIT 3"
    );
    let count = "SELECT count(*) FROM lineitem WHERE l_quantity < 2";
    let schema = "s3://bench/tpch/schema.sql";
    let page_argument = page.to_str().unwrap();
    let done = node.client(&["--profile", page_argument, "--format", "csv", "-f", schema, "-c", &join, "-c", count]);
    assert_eq!(done.ok().lines().count(), 1 + 3 + 2);

    let written = std::fs::read_to_string(&page).unwrap();
    for foreign in ["<script", "<link", "<img", "url(", "@import", "<b>bold", "onerror=\""] {
        assert!(!written.contains(foreign), "{foreign} in the page");
    }
    let seen = open(&chromium, &page);
    assert_eq!((seen.console, seen.requests), (vec![], vec![]));
    let dom = &seen.dom;
    assert!(dom.contains("&lt;/script&gt;&lt;img src=x onerror="), "the statement as text");
    assert!(!dom.contains("<img") && !dom.contains("<title>1</title>"), "nothing of it as markup");
    // Both queries, and both scans of the first, in the picture, the tables and the list of
    // choices.
    for id in ["id=\"query-1\"", "id=\"query-2\""] {
        assert_eq!(dom.matches(id).count(), 1, "{id}");
    }
    for table in ["orders", "customer"] {
        let shown = dom.matches(&format!(">Scan of {table}<")).count();
        assert!(shown >= 4, "{table} {shown} times: in the picture, its card, the times and all operators");
        assert!(dom.contains(&format!("</code> for Scan of {table}<")), "the choice for {table}");
    }
    let headline = "<div><dt>Rows</dt><dd>3</dd></div>";
    assert!(dom.contains(headline), "the rows of the result");
    assert!(dom.contains("<dt>Over the network</dt>") && dom.contains("<dt>Scanned at storage</dt>"));
    assert!(dom.contains("<b class=\"taken\">taken</b>") && dom.contains("<b class=\"lost\">lost</b>"));
    assert!(dom.contains("<th scope=\"row\">pushdown.level</th><td>auto</td>"));
}

#[test]
fn the_shell_writes_a_page_until_told_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("p.html");
    let input = format!(
        "\\profile {}\nSELECT 1 + 1 AS two;\nEXPLAIN ANALYZE SELECT 'seen' AS word;\n\\profile\nSELECT 'unseen';\n",
        page.display()
    );
    crate::shell::shell(&input, None).ok();
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(written.contains("1 + 1 AS two") && written.contains("&#39;seen&#39;"), "{written}");
    assert!(!written.contains("unseen"));
    assert!(written.contains("There was nothing to choose") && written.contains("2 queries"));
    let nowhere = crate::run(["--profile", "/no/such/folder/p.html", "-c", "SELECT 1"]);
    assert!(nowhere.fails(3).contains("/no/such/folder/p.html"));
    assert_eq!(nowhere.stdout(), "", "told before anything runs");
}

#[test]
fn explain_analyze_is_a_tree_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("t.csv");
    std::fs::write(&data, "k,v\n1,a\n2,b\n2,c\n").unwrap();
    let sql = format!("EXPLAIN ANALYZE SELECT k, count(*) FROM '{}' WHERE k > 1 GROUP BY k", data.display());
    let shown = crate::run(["-c", &sql]).ok();
    assert!(shown.starts_with("Plan with Metrics\n"), "{shown}");
    for line in ["1 row", "Scan of ", "expected      actual", "objects   1 object, 16 B", "planning   ", "cost       $"]
    {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    let json: serde_json::Value = serde_json::from_str(&crate::run(["--format", "json", "-c", &sql]).ok()).unwrap();
    assert_eq!(json[0]["plan_type"], "Plan with Metrics");
    assert!(json[0]["plan"].as_str().unwrap().contains("Scan of "));
    assert!(crate::run(["--format", "csv", "-c", &sql]).ok().starts_with("plan_type,plan\n"));
    let verbose = crate::run(["-c", &sql.replace("ANALYZE", "ANALYZE VERBOSE")]).ok();
    assert!(verbose.contains("output_rows=") && verbose.contains("RemoteScanExec"), "{verbose}");
}
