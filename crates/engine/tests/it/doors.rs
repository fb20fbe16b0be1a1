//! Which modules of the engine may open files and connections at all: a door that is not listed
//! here is one that may have forgotten the access policy.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The modules that open something, and why the policy is not forgotten there.
const DOORS: [(&str, &str); 17] = [
    ("access/", "the gate itself"),
    ("endpoints/mod.rs", "makes stores, all of them checked"),
    ("endpoints/backend.rs", "makes the stores of web servers, all of them checked"),
    ("endpoints/s3.rs", "reads what the builder of a bucket was given"),
    ("endpoints/http.rs", "the client of sessions without a policy, and of requests for credentials"),
    ("endpoints/credentials.rs", "the user's own AWS files"),
    ("endpoints/profile/persisted.rs", "in the cache folder, which the program names"),
    ("files/mod.rs", "files in the cache folder"),
    ("statistics/cache.rs", "in the cache folder"),
    ("files/stamped.rs", "in the cache folder"),
    ("catalog/file/mod.rs", "the catalog file, which the program names"),
    ("catalog/kept_rows.rs", "beside the catalog file, which the program names"),
    ("endpoints/cloud.rs", "buckets of Google and Azure, which sessions under a policy do not open"),
    ("endpoints/fleet/addresses.rs", "names of nodes, once the policy permits them"),
    ("session/tables.rs", "hints at a file or folder that the policy lets SQL see"),
    ("standard_input.rs", "the standard input, which sessions under a policy do not read"),
    ("session/access_checks.rs", "price books: shipped ones, and those of sessions without a policy"),
];

/// The look of opening something.
const OPENING: [&str; 25] = [
    "fs::",
    "File::open",
    "File::create",
    "OpenOptions",
    "canonicalize(",
    "read_dir",
    "LocalFileSystem",
    "LocalFile::open(",
    "AmazonS3Builder",
    "HttpBuilder",
    "MicrosoftAzure",
    "GoogleCloud",
    "parse_url_opts",
    "ReqwestConnector",
    "pushdowndb_http::Connector",
    "reqwest::",
    "TcpStream",
    "UnixStream",
    "UdpSocket",
    "lookup_host",
    "ToSocketAddrs",
    "process::Command",
    "named_or_path",
    "tempfile",
    "ListingTableUrl",
];

/// Whether `look` stands in a line, and not at the end of another word.
fn contains_word(line: &str, look: &str) -> bool {
    let follows_word = |at: usize| line[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
    line.match_indices(look).any(|(at, _)| !look.starts_with(|c: char| c.is_ascii_lowercase()) || !follows_word(at))
}

/// Lines of a module, without its tests.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//"))
}

fn modules(folder: &Path, all: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            modules(&path, all);
        } else {
            all.insert(
                path.strip_prefix("src").unwrap().to_str().unwrap().to_owned(),
                fs::read_to_string(&path).unwrap(),
            );
        }
    }
}

#[test]
fn only_known_modules_open_anything() {
    let mut all = BTreeMap::new();
    modules(Path::new("src"), &mut all);
    assert!(all.len() > 100, "all modules are looked at");
    let is_test = |module: &str| module.ends_with("tests.rs") || module == "catalog/read_back.rs";
    let opens = |text: &str| {
        let found = lines(text).find(|line| OPENING.iter().any(|look| contains_word(line, look)));
        found.map(|line| line.trim().to_owned())
    };
    let is_door = |module: &str| DOORS.iter().any(|(door, _)| module.starts_with(door));
    let unknown: Vec<_> = all
        .iter()
        .filter(|(module, _)| !is_test(module) && !is_door(module))
        .filter_map(|(module, text)| Some((module, opens(text)?)))
        .collect();
    assert!(unknown.is_empty(), "these open something beside the gate of access/: {unknown:#?}");
    for (door, why) in DOORS {
        let is_used = all.iter().any(|(module, text)| module.starts_with(door) && opens(text).is_some());
        assert!(is_used, "{door} opens nothing any more: {why}");
    }
}
